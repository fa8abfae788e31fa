//! What checks report.

use serde::Serialize;

common::named! {
    /// How serious a finding is. Names are those in reports.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Level {
        /// Works now, and may become a problem.
        Warning = "warning",
        /// Something does not work or could not be checked, or data may be lost.
        Error = "error",
    }
}

/// Something that is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check, such as `postgres.settings`.
    pub check: &'static str,
    /// How serious it is.
    pub level: Level,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub fix: String,
}

/// The result of all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether no finding is an error.
    pub ok: bool,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The checks that ran, or tried to, in their order.
    pub checks: Vec<&'static str>,
}

impl Finding {
    pub(super) fn error(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check: "", level: Level::Error, message: message.into(), fix: fix.into() }
    }

    pub(super) fn warning(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(message, fix) }
    }
}

impl Report {
    pub(super) fn add(&mut self, check: &'static str, findings: Vec<Finding>) {
        self.checks.push(check);
        self.findings.extend(findings.into_iter().map(|finding| Finding { check, ..finding }));
    }

    /// Adds the result of a check. That it could not run is an error: whatever it looks for may be the case.
    pub(super) fn check(&mut self, check: &'static str, result: Result<Vec<Finding>, String>) {
        let findings = result.unwrap_or_else(|what| {
            let fix = "Fix what the message says (a missing privilege, a server that does not respond), and run the command again";
            vec![Finding::error(format!("the check could not run: {what}"), fix)]
        });
        self.add(check, findings);
    }

    /// A setting that a check needs. That it is missing or malformed is an error of the check.
    pub(super) fn usable<'s, T>(
        &mut self,
        check: &'static str,
        setting: &'s Result<T, String>,
    ) -> Option<&'s T> {
        setting
            .as_ref()
            .inspect_err(|what| {
                let fix = "Set it as for the programs, and run the command again";
                self.add(check, vec![Finding::error(format!("the check could not run: {what}"), fix)]);
            })
            .ok()
    }

    pub(super) fn finish(mut self) -> Self {
        self.ok = self.findings.iter().all(|finding| finding.level != Level::Error);
        self
    }
}

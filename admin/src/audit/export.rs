//! Exports of audit records, as CSV or as lines of JSON, the newest first.

use super::{Actor, AuditAction, AuditFilter, AuditRecord, list, record_before};
use crate::{AdminError, Result, store};
use common::clock;
use common::model::text;
use tokio_postgres::Client;

/// Maximum number of records of an export. Older ones are exported with an end of the range of times.
pub const AUDIT_EXPORT_MAX: u32 = 100_000;
/// Records that one query reads, and that are in memory at once.
const PAGE: u32 = 1_000;
/// The target of an export of all tenants' records.
const ALL_TENANTS: &str = "all tenants";
const COLUMNS: [&str; 6] = ["at", "who", "interface", "action", "target", "tenant"];

common::named! {
    /// The format of an export. Its name is also the ending of a file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ExportFormat {
        /// A heading and a line for each record (RFC 4180).
        Csv = "csv",
        /// A JSON object on each line.
        JsonLines = "jsonl",
    }
}

/// An export under way. It is read part by part, so that no connection and little memory is held while somebody downloads it.
#[derive(Debug)]
pub struct AuditExport {
    filter: AuditFilter,
    format: ExportFormat,
    /// How many more records may follow; 0 at the end.
    left: u32,
    is_begun: bool,
}

impl AuditExport {
    /// Begins an export of at most `most` records, and records that.
    pub async fn begin(
        client: &mut Client, actor: &Actor, filter: AuditFilter, format: ExportFormat, most: u32,
    ) -> Result<Self> {
        let tenant = match &filter.tenant {
            Some(slug) => Some(store::tenants::find(client, slug).await?),
            None => None,
        };
        let target = filter.tenant.as_deref().unwrap_or(ALL_TENANTS);
        record_before(client, actor, AuditAction::ExportAudit, target, tenant).await?;
        Ok(Self { filter, format, left: most.min(AUDIT_EXPORT_MAX), is_begun: false })
    }

    /// The next part; `None` after the last one.
    pub async fn next(&mut self, client: &Client) -> Result<Option<String>> {
        if self.left == 0 {
            return Ok(None);
        }
        let page = list(client, &self.filter, self.left.min(PAGE)).await?;
        let records = u32::try_from(page.items.len()).unwrap_or(PAGE);
        self.left = if page.is_cut { self.left.saturating_sub(records) } else { 0 };
        self.filter.before = page.items.first().map(|record| record.id);
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let newest_first = page.items.iter().rev();
        match self.format {
            ExportFormat::Csv => csv(newest_first, is_first).map(Some),
            ExportFormat::JsonLines => json_lines(newest_first).map(Some),
        }
    }
}

fn csv<'r>(records: impl Iterator<Item = &'r AuditRecord>, with_heading: bool) -> Result<String> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let failed = |error: csv::Error| AdminError::Unreadable(error.to_string());
    if with_heading {
        writer.write_record(COLUMNS).map_err(failed)?;
    }
    for record in records {
        let at = clock::to_text(record.at);
        let cells = [
            at.as_str(),
            &record.who,
            &record.interface,
            &record.action,
            &record.target,
            record.tenant.as_deref().unwrap_or_default(),
        ];
        writer.write_record(cells.map(harmless)).map_err(failed)?;
    }
    let bytes = writer.into_inner().map_err(|error| AdminError::Unreadable(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| AdminError::Unreadable(error.to_string()))
}

/// A cell with escapes for what is not seen, and that no spreadsheet takes for a formula: one that begins like a formula gets an
/// apostrophe before it.
fn harmless(cell: &str) -> String {
    let cell = text::escaped(cell);
    let begins_a_formula =
        cell.trim_start().starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']);
    if begins_a_formula { format!("'{cell}") } else { cell }
}

fn json_lines<'r>(records: impl Iterator<Item = &'r AuditRecord>) -> Result<String> {
    let mut lines = String::new();
    for record in records {
        let line = serde_json::to_string(record).map_err(|error| AdminError::Unreadable(error.to_string()))?;
        lines += &text::escaped_json(line);
        lines.push('\n');
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use uuid::Uuid;

    fn record(who: &str, target: &str) -> AuditRecord {
        AuditRecord {
            id: Uuid::nil(),
            at: DateTime::UNIX_EPOCH,
            who: who.to_owned(),
            interface: "console".to_owned(),
            action: "member.add".to_owned(),
            target: target.to_owned(),
            tenant: None,
        }
    }

    #[test]
    fn cells_are_quoted_and_are_no_formulas() {
        let records = [
            record("=1+1", "a,\"b\"\nc"),
            record("+cmd", "-2"),
            record("@sum", " =x"),
            record("\t=x", "x=1"),
            record("\u{202e}=x", "\u{9b}31m"),
            record("Ana (admin)", "\u{ff1d}1"),
        ];
        let told = csv(records.iter(), true).unwrap();
        let lines = [
            "at,who,interface,action,target,tenant",
            "1970-01-01T00:00:00.000Z,'=1+1,console,member.add,\"a,\"\"b\"\"\\nc\",",
            "1970-01-01T00:00:00.000Z,'+cmd,console,member.add,'-2,",
            "1970-01-01T00:00:00.000Z,'@sum,console,member.add,' =x,",
            "1970-01-01T00:00:00.000Z,\\t=x,console,member.add,x=1,",
            "1970-01-01T00:00:00.000Z,\\u{202e}=x,console,member.add,\\u{9b}31m,",
            "1970-01-01T00:00:00.000Z,Ana (admin),console,member.add,'\u{ff1d}1,",
        ];
        assert_eq!(told, lines.map(|line| format!("{line}\r\n")).concat());
        assert_eq!(csv(records[..0].iter(), false).unwrap(), "");
    }
}

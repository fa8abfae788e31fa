//! How well a receiver works, by the attempts of the last 24 hours.

use crate::format::time;
use admin::subscriptions::{HEALTH_DELIVERIES, ReceiverHealth};
use maud::{Markup, html};

/// The share of attempts that succeeded, in whole percent.
const fn percent(health: &ReceiverHealth) -> i64 {
    if health.attempts == 0 { 0 } else { 100 * health.succeeded / health.attempts }
}

/// The class of a receiver: whether somebody should look at it.
const fn class(health: &ReceiverHealth) -> &'static str {
    match percent(health) {
        99.. => "good",
        90..99 => "warn",
        _ => "bad",
    }
}

/// The health of one receiver, on its page.
pub(super) fn show(health: Option<&ReceiverHealth>) -> Markup {
    let Some(health) = health else {
        return html! { p { "Nothing was sent in the last 24 hours. To see whether the receiver works, send a test event." } };
    };
    html! {
        ul.cards {
            li { strong class=(class(health)) { (percent(health)) " %" } "of " (health.attempts) " attempts succeeded" }
            li { strong { (health.median_ms) " ms" } "median response time" }
            li { strong { (health.slow_ms) " ms" } "95 % are faster" }
        }
        @if let Some((at, why)) = &health.last_failure {
            p { "Last failure " (time(*at)) ": " span.bad { (why) } }
        }
        p.hint { "Events of the last 24 hours, of at most " (HEALTH_DELIVERIES) " deliveries." }
    }
}

/// The cells of a receiver in the list: share of successes, response time, last failure.
pub(super) fn cells(health: Option<&ReceiverHealth>) -> Markup {
    let Some(health) = health else { return html! { td.number { "-" } td.number { "-" } td { "-" } } };
    html! {
        td.number { span class=(class(health)) { (percent(health)) " %" } }
        td.number { (health.median_ms) " ms" }
        td { @if let Some((at, why)) = &health.last_failure { (why) ", " (time(*at)) } @else { "-" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    fn health(succeeded: i64, attempts: i64) -> ReceiverHealth {
        let last_failure = Some((DateTime::UNIX_EPOCH, "timeout".to_owned()));
        ReceiverHealth { attempts, succeeded, median_ms: 30, slow_ms: 90, last_failure }
    }

    #[test]
    fn a_receiver_is_judged_by_its_successful_attempts() {
        assert_eq!(class(&health(100, 100)), "good");
        assert_eq!((percent(&health(95, 100)), class(&health(95, 100))), (95, "warn"));
        assert_eq!((percent(&health(2, 4)), class(&health(2, 4))), (50, "bad"));
        let shown = show(Some(&health(2, 4))).into_string();
        assert!(shown.contains("50 %") && shown.contains("timeout") && shown.contains("90 ms"), "{shown}");
        assert!(show(None).into_string().contains("Nothing was sent"));
    }
}

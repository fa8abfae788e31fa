//! The metered writes of an agency by month, with its quota (D23).

use crate::context::View;
use crate::failure::Failure;
use crate::format::{data_table, number};
use crate::layout;
use crate::pages::chart::{self, Chart};
use admin::tenants;
use maud::html;
use warp::reply::Response;

/// Months that the chart shows.
const MONTHS: u32 = 12;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    let months = tenants::usage_of_last_months(view.client(), tenant.id, MONTHS).await?;
    let has_year = |month: &String| month.ends_with("-01") || months.first().is_some_and(|(first, _)| first == month);
    let tick = |month: &String| html! { (month.get(5..).filter(|_| !has_year(month)).unwrap_or(month)) };
    let periods: Vec<_> = months.iter().map(|(month, _)| (html! { (month) }, Some(tick(month)))).collect();
    let writes: Vec<i64> = months.iter().map(|(_, writes)| *writes).collect();
    let up = ("counted", writes.as_slice());
    let limit = tenant.monthly_quota;
    let chart = Chart { id: "usage", title: "Writes", periods: &periods, up, down: None, limit, are_levels: false };
    let quota = limit.map_or_else(|| "no limit".to_owned(), |quota| format!("{} a month", number(quota)));
    let content = html! {
        p { "Successful writes of the records API by calendar month (UTC). Repeated writes and reads do not count." }
        dl {
            dt { "Records writes this month" } dd { (number(writes.last().copied().unwrap_or_default())) }
            dt { "Quota" } dd { (quota) }
        }
        @if writes.iter().sum::<i64>() == 0 {
            p.soft { "There was no write in the last " (months.len()) " months." }
        } @else {
            (chart::draw(&chart, "Records writes by month; the table has the numbers"))
            (data_table(&["Month", "#Writes"], &html! {
                @for (month, writes) in months.iter().rev() { tr { th scope="row" { (month) } td.number { (number(*writes)) } } }
            }))
        }
    };
    Ok(layout::page(&view, "Usage", &content))
}

//! The limits of an agency, which operators set (D23).

use super::show;
use crate::context::Change;
use crate::failure::Failure;
use crate::pages::form::Faults;
use crate::response::redirect;
use admin::AdminError;
use admin::input::MonthlyQuota;
use admin::tenants::{self, TenantChanges};
use hyper::StatusCode;
use warp::reply::Response;

pub(crate) async fn set(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let mut faults = Faults::none();
    let quota = change.form().get("quota").parse::<MonthlyQuota>();
    let quota =
        faults.check("quota", quota.map_err(|what| AdminError::InvalidInput(format!("quota {what}"))));
    let reads = faults.check("reads", reads(change.form().get("reads")));
    let (Some(quota), Some(reads)) = (quota, reads) else {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return show::with_faults(change.view(), status, Some(change.form()), &faults).await;
    };
    let changes =
        TenantChanges { discovery: None, monthly_quota: Some(quota), reads_per_second: Some(reads) };
    let (client, actor) = change.operation();
    tenants::change(client, actor, &context.tenant()?.slug, &changes).await?;
    Ok(redirect(&context.tenant_path("/settings?done=saved")))
}

fn reads(text: &str) -> Result<i32, AdminError> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        AdminError::InvalidInput(format!("reads must be a whole number from 1 to {}", i32::MAX))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_limit_is_a_positive_number() {
        assert_eq!(reads("1").unwrap(), 1);
        for wrong in ["", "0", "-1", "1.5", "2147483648"] {
            assert!(reads(wrong).is_err(), "{wrong}");
        }
    }
}

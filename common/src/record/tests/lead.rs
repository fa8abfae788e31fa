//! The lead body, the patch of a lead, and the texts of a trip patch.

use super::valid;
use crate::record::LeadBody;

#[test]
fn a_marketing_block_without_text_is_none() {
    for nothing in ["{}", r#"{"source": ""}"#] {
        let lead: LeadBody = valid(&format!(r#"{{"attribution": {nothing}}}"#));
        assert_eq!(lead.attribution.get().unwrap().block(), None);
    }
}

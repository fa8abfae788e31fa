//! Who may use a route, and which requests may change something. Pure.

use admin::console::{Role, Session};
use hyper::HeaderMap;

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing: sign-in and the style sheet.
    Public,
    /// A session of any role, whatever its tenant.
    SignedIn,
    /// A session of the tenant in the path with at least this role, or an operator's.
    Tenant(Role),
    /// An operator's session.
    Operator,
}

/// Why a session may not use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The tenant is another one, whose existence is not revealed.
    ForeignTenant,
    /// The role is not sufficient.
    Role,
}

/// Checks whether somebody with `role`, limited to `own` tenant, may use a route of the tenant `named` in its path.
fn check(access: Access, role: Role, own: Option<&str>, named: Option<&str>) -> Result<(), Denial> {
    let is_operator = role == Role::Operator;
    match access {
        Access::Public | Access::SignedIn => Ok(()),
        Access::Operator if is_operator => Ok(()),
        Access::Operator => Err(Denial::Role),
        Access::Tenant(_) if is_operator => Ok(()),
        Access::Tenant(_) if own.is_none() || own != named => Err(Denial::ForeignTenant),
        Access::Tenant(needed) if role >= needed => Ok(()),
        Access::Tenant(_) => Err(Denial::Role),
    }
}

/// Checks whether `session` may use a route of the tenant with the slug `named`.
pub(crate) fn authorize(access: Access, session: &Session, named: Option<&str>) -> Result<(), Denial> {
    check(access, session.role(), session.tenant_slug.as_deref(), named)
}

/// A proof that the request came from a page of the console. Only [`check_origin`] makes one, and without one nothing is changed.
#[derive(Debug)]
pub(crate) struct SameOrigin(());

/// Checks a request that changes something. Browsers say in `Sec-Fetch-Site` whose page sent it, and older ones, or those that
/// reach the console without TLS, in `Origin`. A request without either header is refused.
pub(crate) fn check_origin(headers: &HeaderMap, own_origin: &str) -> Option<SameOrigin> {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let mut origins = headers.get_all("origin").iter();
    let is_own = match (sites.next(), origins.next()) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => origin == own_origin,
        (None, None) => false,
    };
    let is_ambiguous = sites.next().is_some() || origins.next().is_some();
    (is_own && !is_ambiguous).then_some(SameOrigin(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    #[test]
    fn tenants_are_isolated_whatever_the_role() {
        for role in [Role::Viewer, Role::Admin] {
            for needed in Role::ALL {
                let checked = |own, named| check(Access::Tenant(needed), role, own, named);
                assert_eq!(checked(Some("acme"), Some("other")), Err(Denial::ForeignTenant));
                assert_eq!(checked(None, None), Err(Denial::ForeignTenant), "a session without a tenant");
                assert_eq!(checked(Some("acme"), Some("acme")).is_ok(), role >= needed);
            }
            assert_eq!(check(Access::Operator, role, Some("acme"), None), Err(Denial::Role));
        }
    }

    #[test]
    fn an_operator_may_use_every_route() {
        for access in [Access::Public, Access::SignedIn, Access::Operator, Access::Tenant(Role::Admin)] {
            assert_eq!(check(access, Role::Operator, None, Some("acme")), Ok(()));
        }
    }

    const OWN: &str = "https://console.example.com";

    fn is_accepted(headers: &[(&'static str, &'static str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        check_origin(&map, OWN).is_some()
    }

    #[test]
    fn only_requests_of_the_consoles_own_pages_are_accepted() {
        assert!(is_accepted(&[("sec-fetch-site", "same-origin")]));
        assert!(is_accepted(&[("origin", OWN)]));
        assert!(is_accepted(&[("sec-fetch-site", "same-origin"), ("origin", OWN)]));
        for refused in [
            &[][..],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
            &[("sec-fetch-site", "cross-site"), ("origin", OWN)],
            &[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
            &[("origin", "null")],
            &[("origin", "https://console.example.com.attacker.example")],
            &[("origin", "http://console.example.com")],
            &[("origin", OWN), ("origin", "https://attacker.example")],
            &[("referer", "https://console.example.com/")],
        ] {
            assert!(!is_accepted(refused), "{refused:?}");
        }
    }
}

//! Who may use a route. Pure.

use admin::console::{Role, Session};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}

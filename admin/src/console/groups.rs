//! Sign-in of people whom an identity provider or a proxy has verified, with the rights of their groups.

use super::{PendingSignIn, Role, SignInMethod, SignedInIdentity, sessions};
use crate::audit::{Actor, AuditAction, record_before};
use crate::input::{Name, TenantSlug};
use crate::{AdminError, Result, tenants};
use common::sealed::Secret;
use common::settings::SettingValue;
use tokio_postgres::Client;

/// Maximum number of groups of a person that are considered.
const GROUPS_MAX: usize = 1_000;

/// The rights of groups, in the order in which the setting lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRoles(Vec<Grant>);

/// The rights of the members of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    group: String,
    /// What they may do.
    pub role: Role,
    /// The tenant that they are limited to; `None` exactly for operators.
    pub tenant: Option<TenantSlug>,
}

impl GroupRoles {
    /// The rights of somebody in `groups`: those of the first listed group that they are in. Names are compared exactly.
    pub fn grant(&self, groups: &[String]) -> Option<&Grant> {
        let groups = groups.get(..GROUPS_MAX).unwrap_or(groups);
        self.0.iter().find(|grant| groups.contains(&grant.group))
    }
}

impl SettingValue for GroupRoles {
    fn parse_setting(text: &str) -> Result<Self, String> {
        let grants: Vec<Grant> = text.split(',').map(grant).collect::<Result<_, _>>()?;
        for (number, grant) in grants.iter().enumerate() {
            if grants.iter().take(number).any(|earlier| earlier.group == grant.group) {
                return Err(format!("names the group {:?} twice", grant.group));
            }
        }
        Ok(Self(grants))
    }
}

fn grant(item: &str) -> Result<Grant, String> {
    const EXPECTED: &str =
        "must be group=role[:tenant], separated by commas, such as ops=operator,acme-staff=viewer:acme";
    let (group, rights) = item.rsplit_once('=').ok_or(EXPECTED)?;
    let (role, tenant) = rights.split_once(':').map_or((rights, None), |(role, tenant)| (role, Some(tenant)));
    let (group, role) = (group.trim_ascii().to_owned(), Role::parse(role.trim()).ok_or(EXPECTED)?);
    if group.is_empty() {
        return Err(EXPECTED.to_owned());
    }
    let tenant = match (role, tenant) {
        (Role::Operator, None) => None,
        (Role::Operator, Some(_)) => return Err("limits an operator to a tenant".to_owned()),
        (Role::Viewer | Role::Admin, None) => {
            return Err(format!("must name the tenant of {group:?}: {group}={}:tenant", role.as_str()));
        }
        (Role::Viewer | Role::Admin, Some(slug)) => {
            Some(TenantSlug::parse(slug.trim()).map_err(|error| error.to_string())?)
        }
    };
    Ok(Grant { group, role, tenant })
}

/// Somebody whose identity was verified.
#[derive(Clone, Debug)]
pub struct VerifiedPerson {
    /// Their email, or their id at the provider.
    pub name: Name,
    /// The groups that they are in.
    pub groups: Vec<String>,
    /// What has verified it.
    pub method: SignInMethod,
}

/// What became of an attempt to sign in.
#[derive(Debug)]
pub enum SignIn {
    /// The person is signed in, in the session with this token.
    SignedIn(Secret),
    /// None of the person's groups gives access. This was recorded.
    NoAccess,
    /// The sign-in has begun a session before, which has ended.
    Replayed,
}

/// Begins a session of somebody whose identity was verified, with the role that `roles` gives to their groups. The session with
/// the token `replaced`, which the browser had before, ends. The sign-in `pending` begins at most one session.
pub async fn sign_in_person(
    client: &mut Client, roles: &GroupRoles, person: &VerifiedPerson, pending: Option<&PendingSignIn>,
    replaced: Option<&str>,
) -> Result<SignIn> {
    let Some(grant) = roles.grant(&person.groups) else {
        return refuse(client, person, "none of their groups gives access").await;
    };
    let tenant = match &grant.tenant {
        None => None,
        Some(slug) => match tenants::find(&*client, slug.as_str()).await {
            Ok(tenant) => Some(tenant),
            Err(AdminError::TenantNotFound(slug)) => {
                return refuse(
                    client,
                    person,
                    &format!("their group is that of tenant {slug:?}, which does not exist"),
                )
                .await;
            }
            Err(error) => return Err(error),
        },
    };
    let identity = SignedInIdentity { role: grant.role, tenant, person: person.name.clone() };
    let begun = sessions::begin_verified_session(client, &identity, person.method, pending, replaced).await?;
    Ok(begun.map_or(SignIn::Replayed, SignIn::SignedIn))
}

/// Records that a person has no access. The record belongs to no tenant, because the person belongs to none.
async fn refuse(client: &mut Client, person: &VerifiedPerson, why: &str) -> Result<SignIn> {
    let actor = Actor::signed_in(person.name.as_str());
    let target = format!("{}: {why}", person.method.as_str());
    record_before(client, &actor, AuditAction::RefuseSignIn, &target, None).await?;
    Ok(SignIn::NoAccess)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(roles: &GroupRoles, groups: &[&str]) -> Option<(Role, Option<String>)> {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        let grant = roles.grant(&groups)?;
        Some((grant.role, grant.tenant.as_ref().map(|tenant| tenant.as_str().to_owned())))
    }

    #[test]
    fn the_first_listed_group_of_a_person_decides() {
        let text = "ops=operator, acme-admins=admin:acme,cn=staff=viewer:acme";
        let roles = GroupRoles::parse_setting(text).unwrap();
        let acme = || Some("acme".to_owned());
        assert_eq!(granted(&roles, &["acme-admins", "ops"]), Some((Role::Operator, None)));
        assert_eq!(granted(&roles, &["cn=staff", "acme-admins"]), Some((Role::Admin, acme())));
        assert_eq!(granted(&roles, &["cn=staff"]), Some((Role::Viewer, acme())));
        let spaced = GroupRoles::parse_setting(" \u{a0}ops =operator").unwrap();
        assert_eq!(granted(&spaced, &["\u{a0}ops"]), Some((Role::Operator, None)));
        assert_eq!(granted(&spaced, &["ops"]), None, "a no-break space is a part of a name");
        for nobody in [&[][..], &["Ops"], &["ops "], &["ops\u{a0}"], &["ops,acme-admins"], &["acme-admins:acme"], &[""]]
        {
            assert_eq!(granted(&roles, nobody), None, "{nobody:?}");
        }
    }

    #[test]
    fn only_the_first_groups_are_considered() {
        let roles = GroupRoles::parse_setting("ops=operator").unwrap();
        let mut groups = vec!["other"; GROUPS_MAX - 1];
        groups.push("ops");
        assert!(granted(&roles, &groups).is_some());
        groups.insert(0, "other");
        assert_eq!(granted(&roles, &groups), None);
    }

    #[test]
    fn a_mapping_that_gives_other_rights_than_meant_is_refused() {
        for wrong in [
            "", "ops", "=operator", "ops=root", "ops=operator,", "ops=operator:acme", "acme-staff=viewer",
            "acme-staff=viewer:Not A Slug", "acme-staff=viewer:", "ops=operator,ops=viewer:acme",
        ] {
            assert!(GroupRoles::parse_setting(wrong).is_err(), "{wrong}");
        }
    }
}

//! Which groups of an identity provider may use the settings area, and as what. Pure.

use super::Role;
use crate::input::TenantSlug;
use common::settings::SettingValue;

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
        let grants: Vec<Grant> = text.split(',').map(|item| grant(item.trim())).collect::<Result<_, _>>()?;
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
    let (group, role) = (group.trim().to_owned(), Role::parse(role.trim()).ok_or(EXPECTED)?);
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
        for nobody in [&[][..], &["Ops"], &["ops "], &["ops,acme-admins"], &["acme-admins:acme"], &[""]] {
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
            "",
            "ops",
            "=operator",
            "ops=root",
            "ops=operator,",
            "ops=operator:acme",
            "acme-staff=viewer",
            "acme-staff=viewer:Not A Slug",
            "acme-staff=viewer:",
            "ops=operator,ops=viewer:acme",
        ] {
            assert!(GroupRoles::parse_setting(wrong).is_err(), "{wrong}");
        }
    }
}

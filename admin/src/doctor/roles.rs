//! The privileges of the programs' roles.

use super::Finding;
use crate::Result;
use crate::roles::{ObjectKind, Program, RolePrefix, objects};
use common::db::column;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

common::statements! {
    const EXISTING = "-- doctor.existing_roles
    SELECT name FROM unnest($1::text[]) AS name WHERE to_regrole(name) IS NOT NULL";

    /// A privilege of a table has no column, and that of a function no column either.
    const LACKING = "-- doctor.lacking_privileges
    SELECT w.role, w.object, w.privilege, w.column_name
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::boolean[])
        AS w (role, object, privilege, column_name, is_function)
    WHERE NOT CASE WHEN w.is_function THEN has_function_privilege(w.role, w.object, w.privilege)
                   WHEN w.column_name <> '' THEN has_column_privilege(w.role, w.object, w.column_name, w.privilege)
                   ELSE has_table_privilege(w.role, w.object, w.privilege) END";

    /// What the roles may do with whole tables.
    const HELD = "-- doctor.held_privileges
    SELECT r.rolname::text, c.relname::text, a.privilege_type
    FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND r.rolname = ANY($1::text[])
    ORDER BY 1, 2, 3";

    /// Sessions of programs whose user owns the schema or is a superuser.
    const OWNERS = "-- doctor.programs_as_owner
    SELECT DISTINCT a.usename::text FROM pg_stat_activity a
    JOIN pg_class c ON c.oid = to_regclass('tenants')
    JOIN pg_roles r ON r.oid = a.usesysid
    WHERE a.datname = current_database() AND (c.relowner = a.usesysid OR r.rolsuper)
      AND (a.application_name LIKE 'ingest%' OR a.application_name IN ('worker', 'dispatcher'))";
}

/// One privilege that a program needs.
struct Needed {
    role: String,
    object: &'static str,
    privilege: String,
    column: String,
    is_function: bool,
}

fn needed(prefix: &RolePrefix) -> Vec<Needed> {
    let mut all = Vec::new();
    for object in objects() {
        for (program, privileges) in Program::ALL.into_iter().zip(&object.privileges) {
            for privilege in privileges {
                let (privilege, columns) = privilege.split_once(" (").unwrap_or((privilege.as_str(), ""));
                for column in columns.trim_end_matches(')').split(", ") {
                    all.push(Needed {
                        role: prefix.role(program),
                        object: object.name,
                        privilege: privilege.to_owned(),
                        column: column.to_owned(),
                        is_function: object.kind == ObjectKind::Function,
                    });
                }
            }
        }
    }
    all
}

/// What else to do if programs do not have their own roles.
const AND_USERS: &str = ", and give each program a user that is a member of its role";

pub(super) async fn check(client: &Client, prefix: &RolePrefix) -> Result<Vec<Finding>> {
    let roles: Vec<String> = Program::ALL.into_iter().map(|program| prefix.role(program)).collect();
    let rows = client.query(EXISTING.as_str(), &[&roles]).await?;
    let existing: Vec<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let fix = "Run connectctl migrate --roles";
    let mut findings = Vec::new();
    if existing.len() < roles.len() {
        let missing: Vec<&str> = roles.iter().filter(|role| !existing.contains(role)).map(String::as_str).collect();
        let missing = missing.join(", ");
        let message =
            format!("the roles {missing} do not exist: programs share a role that may do more than they need");
        findings.push(Finding::warning(message, format!("{fix}{AND_USERS}")));
    }
    let mut needed = needed(prefix);
    needed.retain(|needed| existing.contains(&needed.role));
    let (of_roles, objects) = (column(&needed, |one| one.role.as_str()), column(&needed, |one| one.object));
    let privileges = column(&needed, |one| one.privilege.as_str());
    let columns = column(&needed, |one| one.column.as_str());
    let are_functions = column(&needed, |one| one.is_function);
    let parameters: [&(dyn ToSql + Sync); 5] = [&of_roles, &objects, &privileges, &columns, &are_functions];
    for row in client.query(LACKING.as_str(), &parameters).await? {
        let (role, object, privilege): (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        findings.push(Finding::error(format!("{role} lacks {privilege} on {object}: its program does not work"), fix));
    }
    for row in client.query(HELD.as_str(), &[&existing]).await? {
        let (role, table, privilege): (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let is_needed = needed.iter().any(|needed| {
            needed.role == role && needed.object == table && needed.privilege == privilege && needed.column.is_empty()
        });
        if !is_needed {
            let message = format!("{role} has {privilege} on {table}, which its program does not need");
            findings.push(Finding::warning(message, fix));
        }
    }
    for row in client.query(OWNERS.as_str(), &[]).await? {
        let user: String = row.try_get(0)?;
        let message = format!(
            "a program works as {user}, which owns the schema or is a superuser, and may do more than any program needs"
        );
        findings.push(Finding::warning(message, format!("{fix}{AND_USERS}")));
    }
    Ok(findings)
}

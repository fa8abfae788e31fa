//! The tenants of the test that runs on this thread in the shared world.

use crate::key::ApiKey;
use crate::{ALL_SCOPES, MASTER_KEY};
use common::model::TenantId;
use common::sealed::{MasterKey, Secret, api_key_binding};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::Client;
use uuid::Uuid;

/// A tenant as a test names it, and as it is stored.
struct Tenant {
    name: String,
    slug: String,
    id: TenantId,
}

thread_local! {
    static TENANTS: RefCell<Vec<Tenant>> = const { RefCell::new(Vec::new()) };
}

/// The slug of a tenant that the test calls `name`. Outside the shared world they are equal.
pub fn slug(name: &str) -> String {
    TENANTS.with_borrow(|tenants| {
        let found = tenants.iter().find(|tenant| tenant.name == name);
        found.map_or(name, |tenant| &tenant.slug).to_owned()
    })
}

/// A statement in which `'acme'` stands for the slug.
pub(crate) fn with_slugs(sql: &str) -> String {
    TENANTS.with_borrow(|tenants| {
        tenants.iter().fold(sql.to_owned(), |sql, Tenant { name, slug, .. }| {
            sql.replace(&format!("'{name}'"), &format!("'{slug}'"))
        })
    })
}

/// Output in which the names stand for the slugs.
pub fn with_names(output: String) -> String {
    TENANTS.with_borrow(|tenants| {
        tenants.iter().fold(output, |output, Tenant { name, slug, .. }| output.replace(slug, name))
    })
}

/// The ids as an array of Postgres.
pub(crate) fn ids() -> String {
    TENANTS.with_borrow(|tenants| {
        let ids: Vec<String> = tenants.iter().map(|tenant| tenant.id.to_string()).collect();
        format!("{{{}}}", ids.join(","))
    })
}

/// Ends the use of the shared world by the test on this thread.
pub(super) fn forget() {
    TENANTS.with_borrow_mut(Vec::clear);
}

/// Creates the tenant that the test calls `name`, and a key with every scope.
pub(super) async fn create(client: &Client, name: &str) -> ApiKey {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (slug, id) = (format!("{name}-{}x", COUNT.fetch_add(1, Ordering::Relaxed)), TenantId(Uuid::now_v7()));
    let statement = "INSERT INTO public.tenants (tenant_id, slug, name, enquiry_prefix, discovery_enabled, created_at)
        VALUES ($1, $2, $3, 'ENQ', $4, now())";
    let is_acme = name == "acme";
    let title = if is_acme { "Acme Travel" } else { name };
    client.execute(statement, &[&id.0, &slug, &title, &is_acme]).await.expect("a tenant");
    TENANTS.with_borrow_mut(|tenants| tenants.push(Tenant { name: name.to_owned(), slug, id }));
    if is_acme {
        let statement = "INSERT INTO public.members (tenant_id, email, name, active, created_at)
            VALUES ($1, 'asha@acme.test', 'Asha', true, now()), ($1, 'ben@acme.test', 'Ben', true, now() + interval '1 ms')";
        client.execute(statement, &[&id.0]).await.expect("the members");
    }
    create_key(client, name, ALL_SCOPES).await
}

pub(super) async fn create_key(client: &Client, name: &str, scopes: &str) -> ApiKey {
    let found = TENANTS.with_borrow(|tenants| {
        let found = tenants.iter().find(|tenant| tenant.name == name);
        found.map(|tenant| (tenant.id, tenant.slug.clone()))
    });
    let (id, slug) = found.expect("a tenant of this test");
    // The second half of a UUIDv7 is random.
    let random = || Uuid::now_v7().simple().to_string().split_off(16);
    let (prefix, secret) = (format!("ck_{}", random()), format!("cs_{}{}", random(), random()));
    let master_key = MasterKey::parse(MASTER_KEY).expect("a key");
    let nonce = *Uuid::now_v7().as_bytes().last_chunk().expect("16 bytes");
    let sealed = master_key.seal(&Secret::new(secret.clone()), &api_key_binding(id, &prefix), nonce);
    let scopes: Vec<&str> = scopes.split(',').collect();
    let statement = "INSERT INTO public.api_keys (tenant_id, prefix, name, secret_sealed, scopes, created_at)
        VALUES ($1, $2, 'test', $3, $4, now())";
    client.execute(statement, &[&id.0, &prefix, &sealed, &scopes]).await.expect("a key");
    ApiKey { tenant: slug, prefix, secret }
}

//! What operators did: each operation that changes something, or shows a person's data as a whole, adds one record.
//!
//! An operation of one transaction adds its record in that transaction. An operation on the broker, or of several
//! transactions, adds it before its first change: its record also stands if the operation was interrupted.

mod export;
mod urls;

pub(crate) use self::urls::UrlChanges;
use crate::identity::{FormResult, SentForm};
pub use crate::store::audit_records::{AuditFilter, AuditRecord};
use crate::{Newest, Result, Steps, store, transact};
use chrono::{DateTime, Utc};
use common::advisor::ActionName;
use common::clock;
use common::model::TenantId;
pub use export::{AUDIT_EXPORT_MAX, AuditExport, ExportFormat};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use tokio_postgres::{Client, GenericClient};
use uuid::Uuid;

macro_rules! actions {
    ($($(#[$of_variant:meta])* $variant:ident = $name:literal,)+) => {
        /// An action that is recorded. The names are stored: they must not change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AuditAction {
            $($(#[$of_variant])* $variant,)+
            /// An advisor action was published.
            Advisor(ActionName),
        }

        impl AuditAction {
            /// Noun and verb.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Advisor(name) => name.ledger_event_type(),
                }
            }
        }
    };
}

actions! {
    /// Schema migrations were applied.
    Migrate = "schema.migrate",
    /// The programs' database role got the settings of their sessions.
    SetRoleSettings = "schema.set-role-settings",
    /// A tenant was created.
    CreateTenant = "tenant.create",
    /// The settings of a tenant were changed.
    ChangeTenant = "tenant.set",
    /// A member was added, restored or renamed.
    AddMember = "member.add",
    /// A member was removed.
    RemoveMember = "member.remove",
    /// A company account was created.
    CreateCompany = "company.create",
    /// An API key was created.
    CreateKey = "key.create",
    /// The scopes of a key were replaced.
    SetKeyScopes = "key.scopes",
    /// A key was revoked.
    RevokeKey = "key.revoke",
    /// The secret of a key was replaced.
    RotateKeySecret = "key.rotate-secret",
    /// The overlap of a key's secrets was ended.
    EndKeyOverlap = "key.end-overlap",
    /// A subscription was created.
    CreateSubscription = "subscription.create",
    /// A subscription was paused.
    PauseSubscription = "subscription.pause",
    /// A subscription was resumed.
    ResumeSubscription = "subscription.resume",
    /// A subscription was removed.
    RemoveSubscription = "subscription.remove",
    /// The signing secret of a subscription was replaced.
    RotateSubscriptionSecret = "subscription.rotate-secret",
    /// The event types of a subscription were replaced.
    SetSubscriptionEvents = "subscription.events",
    /// The URL of a subscription's receiver was replaced.
    SetSubscriptionUrl = "subscription.url",
    /// A test event was sent to a subscription.
    TestSubscription = "subscription.test",
    /// Deliveries were replayed.
    ReplayDeliveries = "delivery.replay",
    /// The next attempt of a delivery was made due at once.
    SendDelivery = "delivery.send-now",
    /// A replay job was stopped.
    StopReplay = "replay.stop",
    /// Dead letters were requeued.
    RequeueDeadLetters = "queue.requeue",
    /// Dead letters were dropped.
    DropDeadLetters = "queue.drop",
    /// Sealed values were sealed again under the current master key.
    RotateMasterKey = "secrets.rotate",
    /// Expired rows were removed.
    RunRetention = "retention.run",
    /// A link that signs in to the settings area was created.
    CreateLoginLink = "console.login",
    /// A link for a partner of a tenant was created.
    CreatePartnerLink = "console.partner-link",
    /// The links and sessions of a tenant's partners were ended.
    RevokePartners = "console.revoke-partners",
    /// Sessions of the settings area were ended by an operator.
    EndSessions = "console.end-sessions",
    /// A person signed in to the settings area.
    SignIn = "console.sign-in",
    /// A person signed out of the settings area, here or everywhere.
    SignOut = "console.sign-out",
    /// A person whose identity was verified has no access to the settings area.
    RefuseSignIn = "console.sign-in-refused",
    /// Everything that is stored of a client was shown.
    ExportClient = "client.export",
    /// A client was erased.
    EraseClient = "client.erase",
    /// Audit records were exported.
    ExportAudit = "audit.export",
}

/// What the kernel gives as the login of a process that descends from no login.
const NO_LOGIN: u32 = u32::MAX;
/// Longest name of an actor, in characters.
const NAME_MAX: usize = 200;

common::named! {
    /// The interface through which an operator works. Names are stored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Interface {
        /// The program `connectctl`.
        Connectctl = "connectctl",
        /// The settings area in the browser.
        Console = "console",
    }
}

/// Who performs an operation, and through which interface. Each operation that changes something takes one, and records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    name: String,
    interface: Interface,
    form: Option<(SentForm, FormResult)>,
}

impl Actor {
    /// The user of the operating system that runs this process, for the command line. After `sudo` or `su` it is the user who logged in,
    /// followed by the one that the process runs as: `ana as root`.
    ///
    /// A user without a name, as in a container, is `uid 10001`.
    pub fn operating_system_user() -> Self {
        // Of the process itself: /proc/self belongs to its user.
        let own = fs::metadata("/proc/self").map_or(NO_LOGIN, |process| process.uid());
        let login = fs::read_to_string("/proc/self/loginuid").ok().and_then(|uid| uid.trim().parse().ok());
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self::new(&user(&users, own, login.unwrap_or(NO_LOGIN)), Interface::Connectctl)
    }

    /// An administrator who is signed in to the console.
    pub fn signed_in(name: &str) -> Self {
        Self::new(name, Interface::Console)
    }

    /// The same person, who has sent a form: it is spent by the next operation, and leads to `result`.
    pub fn with_form(&self, form: &SentForm, result: FormResult) -> Self {
        Self { form: Some((form.clone(), result)), ..self.clone() }
    }

    fn new(name: &str, interface: Interface) -> Self {
        let shown = name.chars().map(|c| if c.is_control() { ' ' } else { c });
        Self { name: shown.take(NAME_MAX).collect(), interface, form: None }
    }

    /// The name that is recorded: at most 200 characters, without control characters.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The form that the operation spends, and what it leads to.
    const fn form(&self) -> Option<&(SentForm, FormResult)> {
        self.form.as_ref()
    }

    /// The interface that is recorded.
    pub const fn interface(&self) -> Interface {
        self.interface
    }
}

/// The user who logged in, and the one that the process runs as if it is another one. `users` is in the format of `/etc/passwd`.
fn user(users: &str, own: u32, login: u32) -> String {
    if login == NO_LOGIN || login == own {
        return user_name(users, own);
    }
    format!("{} as {}", user_name(users, login), user_name(users, own))
}

fn user_name(users: &str, uid: u32) -> String {
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("uid {uid}"))
}

impl AuditFilter {
    /// The ids between which the selected records are; the second one is not included.
    pub(crate) fn ids(&self) -> (Uuid, Uuid) {
        let ends = [self.to.map(first_id), self.before];
        let end = ends.into_iter().flatten().min().unwrap_or(Uuid::max());
        (self.from.map_or(Uuid::nil(), first_id), end)
    }
}

/// The newest `limit` records that the filter selects, newest last.
pub async fn list(client: &Client, filter: &AuditFilter, limit: u32) -> Result<Newest<AuditRecord>> {
    let tenant = match &filter.tenant {
        Some(slug) => Some(store::tenants::find(client, slug).await?),
        None => None,
    };
    store::audit_records::newest(client, tenant, filter, limit).await
}

/// Adds the record of an action on an object of a tenant, or on all tenants. A target contains no secret and, of a client, nothing
/// but its id. Spends the form that has asked for the action: an operation of a form adds one record.
pub(crate) async fn record(
    on: &impl GenericClient, actor: &Actor, action: AuditAction, target: &str, tenant: Option<TenantId>,
) -> Result<()> {
    if let Some((form, result)) = actor.form() {
        form.spend(on, result, target).await?;
    }
    let who = (actor.name(), actor.interface().as_str());
    store::audit_records::add(on, clock::database_id(), who, (action.as_str(), target), tenant).await
}

/// [`record`] in a transaction of its own, before an operation on the broker or one of several transactions.
pub(crate) async fn record_before(
    client: &mut Client, actor: &Actor, action: AuditAction, target: &str, tenant: Option<TenantId>,
) -> Result<()> {
    transact(client, async |tx| record(tx, actor, action, target, tenant).await).await
}

/// Ends an operation that [`record_before`] has recorded. If it has failed its form can be sent again, and goes on where it was.
pub(crate) async fn end_recorded<T>(database: &mut impl Steps, actor: &Actor, done: Result<T>) -> Result<T> {
    if let (Err(_), Some((form, _))) = (&done, actor.form()) {
        drop(database.step(async |client| form.give_back(client).await).await);
    }
    done
}

/// The smallest id of a record of this millisecond or a later one.
fn first_id(at: DateTime<Utc>) -> Uuid {
    // A time with a fraction of a millisecond is after the records of that millisecond.
    let fraction = u128::from(!at.timestamp_subsec_nanos().is_multiple_of(1_000_000));
    let millis = u128::try_from(at.timestamp_millis()).unwrap_or_default() + fraction;
    Uuid::from_u128(millis << 80)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn a_page_ends_before_a_record_or_a_time_whichever_is_earlier() {
        let at = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(1_777_629_600_123);
        let id = Uuid::from_u128((1_777_629_600_123 << 80) + 7);
        let filter = |to, before| AuditFilter { to, before, ..AuditFilter::default() };
        assert_eq!(filter(None, None).ids(), (Uuid::nil(), Uuid::max()));
        assert_eq!(filter(Some(at), None).ids().1, first_id(at));
        assert!(first_id(at) < id, "a record of the time itself is not before it");
        assert_eq!(filter(Some(at), Some(id)).ids().1, first_id(at));
        assert_eq!(filter(Some(at + TimeDelta::microseconds(1)), Some(id)).ids().1, id);
        assert_eq!(filter(None, Some(id)).ids().1, id);
    }

    #[test]
    fn a_range_includes_its_first_millisecond_and_not_a_part_of_it() {
        let at = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(1_777_629_600_123);
        let id = Uuid::from_u128(1_777_629_600_123 << 80);
        let from = |from| AuditFilter { from: Some(from), ..AuditFilter::default() }.ids().0;
        assert!(from(at) <= id && from(at + TimeDelta::microseconds(1)) > id);
    }

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nana:x:1000:1000:Ana,,,:/home/ana:/bin/sh\nbroken\n";

    #[test]
    fn a_user_has_the_name_of_the_operating_system() {
        assert_eq!(user(USERS, 1000, NO_LOGIN), "ana");
        assert_eq!(user(USERS, 1000, 1000), "ana");
        assert_eq!(user(USERS, 10_001, NO_LOGIN), "uid 10001");
        assert_eq!(user("", 0, NO_LOGIN), "uid 0");
    }

    #[test]
    fn who_became_another_user_is_named_as_well() {
        assert_eq!(user(USERS, 0, 1000), "ana as root");
        assert_eq!(user(USERS, 0, 5), "uid 5 as root");
    }

    #[test]
    fn the_user_of_this_process_has_a_name() {
        let actor = Actor::operating_system_user();
        assert!(!actor.name().is_empty() && actor.interface() == Interface::Connectctl, "{actor:?}");
    }

    #[test]
    fn names_are_bounded_and_have_no_control_characters() {
        let actor = Actor::signed_in(&format!("a\nb{}", "x".repeat(300)));
        assert!(actor.name().starts_with("a bx") && actor.name().chars().count() == NAME_MAX);
        assert_eq!(actor.interface(), Interface::Console);
    }
}

//! The actions that are recorded.

use common::advisor::ActionName;

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

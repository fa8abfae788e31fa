//! The actions that are recorded.

use common::advisor::ActionName;

/// An action that is recorded. The names are stored: they must not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditAction {
    /// Schema migrations were applied.
    Migrate,
    /// The programs' database role got the settings of their sessions.
    SetRoleSettings,
    /// A tenant was created.
    CreateTenant,
    /// The settings of a tenant were changed.
    ChangeTenant,
    /// A member was added, restored or renamed.
    AddMember,
    /// A member was removed.
    RemoveMember,
    /// A company account was created.
    CreateCompany,
    /// An API key was created.
    CreateKey,
    /// The scopes of a key were replaced.
    SetKeyScopes,
    /// A key was revoked.
    RevokeKey,
    /// The secret of a key was replaced.
    RotateKeySecret,
    /// The overlap of a key's secrets was ended.
    EndKeyOverlap,
    /// A subscription was created.
    CreateSubscription,
    /// A subscription was paused.
    PauseSubscription,
    /// A subscription was resumed.
    ResumeSubscription,
    /// A subscription was removed.
    RemoveSubscription,
    /// The signing secret of a subscription was replaced.
    RotateSubscriptionSecret,
    /// The event types of a subscription were replaced.
    SetSubscriptionEvents,
    /// A test event was sent to a subscription.
    TestSubscription,
    /// Deliveries were replayed.
    ReplayDeliveries,
    /// A replay job was stopped.
    StopReplay,
    /// Dead letters were requeued.
    RequeueDeadLetters,
    /// Dead letters were dropped.
    DropDeadLetters,
    /// Sealed values were sealed again under the current master key.
    RotateMasterKey,
    /// Expired rows were removed.
    RunRetention,
    /// A link that signs in to the settings area was created.
    CreateLoginLink,
    /// A link for a partner of a tenant was created.
    CreatePartnerLink,
    /// The links and sessions of a tenant's partners were ended.
    RevokePartners,
    /// Sessions of the settings area were ended by an operator.
    EndSessions,
    /// A person signed in to the settings area.
    SignIn,
    /// A person signed out of the settings area, here or everywhere.
    SignOut,
    /// A person whose identity was verified has no access to the settings area.
    RefuseSignIn,
    /// Everything that is stored of a client was shown.
    ExportClient,
    /// A client was erased.
    EraseClient,
    /// Audit records were exported.
    ExportAudit,
    /// An advisor action was published.
    Advisor(ActionName),
}

impl AuditAction {
    /// Noun and verb.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Migrate => "schema.migrate",
            Self::SetRoleSettings => "schema.set-role-settings",
            Self::CreateTenant => "tenant.create",
            Self::ChangeTenant => "tenant.set",
            Self::AddMember => "member.add",
            Self::RemoveMember => "member.remove",
            Self::CreateCompany => "company.create",
            Self::CreateKey => "key.create",
            Self::SetKeyScopes => "key.scopes",
            Self::RevokeKey => "key.revoke",
            Self::RotateKeySecret => "key.rotate-secret",
            Self::EndKeyOverlap => "key.end-overlap",
            Self::CreateSubscription => "subscription.create",
            Self::PauseSubscription => "subscription.pause",
            Self::ResumeSubscription => "subscription.resume",
            Self::RemoveSubscription => "subscription.remove",
            Self::RotateSubscriptionSecret => "subscription.rotate-secret",
            Self::SetSubscriptionEvents => "subscription.events",
            Self::TestSubscription => "subscription.test",
            Self::ReplayDeliveries => "delivery.replay",
            Self::StopReplay => "replay.stop",
            Self::RequeueDeadLetters => "queue.requeue",
            Self::DropDeadLetters => "queue.drop",
            Self::RotateMasterKey => "secrets.rotate",
            Self::RunRetention => "retention.run",
            Self::CreateLoginLink => "console.login",
            Self::CreatePartnerLink => "console.partner-link",
            Self::RevokePartners => "console.revoke-partners",
            Self::EndSessions => "console.end-sessions",
            Self::SignIn => "console.sign-in",
            Self::SignOut => "console.sign-out",
            Self::RefuseSignIn => "console.sign-in-refused",
            Self::ExportClient => "client.export",
            Self::EraseClient => "client.erase",
            Self::ExportAudit => "audit.export",
            Self::Advisor(name) => name.ledger_event_type(),
        }
    }
}

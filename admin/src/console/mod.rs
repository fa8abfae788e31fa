//! Sign-in to the settings area: links that work once, people of an identity provider, and the sessions that both begin. Only
//! hashes of tokens are stored. Forms act once.

mod links;
mod sessions;
mod verified;

use crate::audit::Actor;
use crate::identity::TokenHash;
pub use crate::identity::{FormResult, Role, SentForm, Session, SignInMethod, SignedInIdentity};
pub use links::{
    LINK_LIFETIME, LoginLink, NewLink, NewPartnerLink, PARTNER_LINK_LIFETIME, Revoked, create_link,
    create_partner_link, is_link_valid, link_session, revoke_partners, use_link,
};
pub use sessions::{EndedSessions, end_session, end_sessions_by_name, find_session, new_form_id, sign_out_everywhere};
pub use verified::{GroupRoles, PENDING_LIFETIME, PendingSignIn, SignIn, VerifiedPerson, sign_in_person};

impl SignedInIdentity {
    /// The person as audit records name them. A partner is marked as one: who invites them chooses their name.
    pub fn actor(&self, method: SignInMethod) -> Actor {
        let (person, role) = (self.person.as_str(), self.role.as_str());
        let name = if method == SignInMethod::PartnerLink {
            format!("{person} ({role}, partner)")
        } else if person == role {
            // The name of a person who gave none is that of the role.
            person.to_owned()
        } else {
            format!("{person} ({role})")
        };
        Actor::signed_in(&name)
    }
}

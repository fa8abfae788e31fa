//! A proxy that has verified who somebody is, and says so in headers.

use crate::failure::Failure;
use crate::request::Request;
use admin::console::{GroupRoles, Session, SignInMethod, VerifiedPerson};
use admin::input::{Name, TenantSlug};
use common::log_limit::LogLimit;
use common::settings::{Environment, Networks, Section, SettingError, SettingValue, Variable, error};
use common::{limited, variables};
use hyper::HeaderMap;
use hyper::header::HeaderName;

const USER_HEADER: &str = "CONNECT_CONSOLE_PROXY_USER_HEADER";
const GROUPS_HEADER: &str = "CONNECT_CONSOLE_PROXY_GROUPS_HEADER";
const NETWORKS: &str = "CONNECT_CONSOLE_PROXY_NETWORKS";

/// Bounds the log lines of headers that did not come from the proxy.
static IGNORED: LogLimit<1> = LogLimit::new();

/// The headers of a proxy, and the networks in which it is.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    user: HeaderName,
    groups: HeaderName,
    networks: Networks,
}

/// The settings of a proxy; `None` if none is set.
#[derive(Clone, Debug)]
pub(crate) struct OptionalProxy(pub(crate) Option<Proxy>);

struct Header(HeaderName);

impl SettingValue for Header {
    fn parse_setting(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| "must be the name of a header, such as X-Forwarded-Email".to_owned())
    }
}

impl Section for OptionalProxy {
    const VARIABLES: &'static [Variable] = variables! {
        USER_HEADER => optional, "header in which a proxy names the person whom it has signed in, such as X-Forwarded-Email";
        GROUPS_HEADER => optional, "header in which the proxy names the person's groups, separated by commas, such as X-Forwarded-Groups";
        NETWORKS => optional, "networks or addresses of the proxy, separated by commas; these headers are ignored in requests from anywhere else";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        let user = env.optional::<Self, Header>(USER_HEADER)?;
        let groups = env.optional::<Self, Header>(GROUPS_HEADER)?;
        let networks = env.optional::<Self, Networks>(NETWORKS)?;
        match (user, groups, networks) {
            (None, None, None) => Ok(Self(None)),
            (Some(Header(user)), Some(Header(groups)), Some(networks)) => {
                if user == groups {
                    return Err(error(GROUPS_HEADER, &format!("must be another header than {USER_HEADER}")));
                }
                Ok(Self(Some(Proxy { user, groups, networks })))
            }
            (None, _, _) => Err(missing(USER_HEADER)),
            (_, None, _) => Err(missing(GROUPS_HEADER)),
            (_, _, None) => Err(missing(NETWORKS)),
        }
    }
}

fn missing(name: &str) -> SettingError {
    error(name, &format!("is required: set {USER_HEADER}, {GROUPS_HEADER} and {NETWORKS} together, or none of them"))
}

impl Proxy {
    /// Whom the proxy names in a request; `None` if it names nobody, or if the request did not come from it. A header that is
    /// repeated is refused: the person may have sent one of them.
    pub(crate) fn person(&self, request: &Request) -> Result<Option<VerifiedPerson>, Failure> {
        let headers = &request.headers;
        if !self.networks.contains(request.peer) {
            if headers.contains_key(&self.user) || headers.contains_key(&self.groups) {
                limited!(IGNORED[0], warn, request_id = %request.id, peer = %request.peer,
                    "ignored the headers of a proxy in a request from outside CONNECT_CONSOLE_PROXY_NETWORKS");
            }
            return Ok(None);
        }
        let (user, groups) = (single(headers, &self.user)?, single(headers, &self.groups)?);
        let Some(user) = user.filter(|user| !user.is_empty()) else { return Ok(None) };
        let name =
            Name::of_person(&user).map_err(|_| Failure::BadRequest("the header of the proxy names no person"))?;
        let groups = groups.unwrap_or_default();
        let groups = groups.split(',').map(|group| group.trim_ascii().to_owned()).collect();
        Ok(Some(VerifiedPerson { name, groups, method: SignInMethod::Proxy }))
    }

    /// Whether the proxy still names the person of a session that began with its headers, in groups with the same rights. So
    /// whoever signs out at the proxy, or loses a group, loses the session with the next request.
    pub(crate) fn confirms(&self, request: &Request, session: &Session, roles: &GroupRoles) -> Result<bool, Failure> {
        let Some(person) = self.person(request)? else { return Ok(false) };
        let Some(grant) = roles.grant(&person.groups) else { return Ok(false) };
        let tenant = grant.tenant.as_ref().map(TenantSlug::as_str);
        Ok(person.name == session.identity.person
            && grant.role == session.role()
            && tenant == session.tenant_slug.as_deref())
    }
}

/// The value of a header that occurs at most once.
fn single(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Failure> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Failure::BadRequest("a header of the proxy occurs twice"));
    }
    let text = std::str::from_utf8(value.as_bytes());
    text.map(|text| Some(text.trim_ascii().to_owned()))
        .map_err(|_| Failure::BadRequest("a header of the proxy is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_networks_are_set_together() {
        let all = [(USER_HEADER, "X-User"), (GROUPS_HEADER, "X-Groups"), (NETWORKS, "10.0.0.0/8")];
        for missing in 0..all.len() {
            let mut some = all.to_vec();
            let (name, _) = some.remove(missing);
            assert_eq!(OptionalProxy::from_env(&Environment::from_pairs(&some)).unwrap_err().name, name);
        }
        let same = [(USER_HEADER, "X-User"), (GROUPS_HEADER, "x-user"), (NETWORKS, "10.0.0.0/8")];
        assert!(OptionalProxy::from_env(&Environment::from_pairs(&same)).is_err());
        assert!(OptionalProxy::from_env(&Environment::from_pairs(&[])).unwrap().0.is_none());
    }
}

//! Why a request got no page, and the page that says so.

use crate::context::Context;
use crate::layout;
use crate::openid_connect::ProviderError;
use crate::response::html as respond;
use admin::attention::Attention;
use admin::{AdminError, ErrorKind};
use common::db::TxError;
use common::http::BodyFault;
use common::limited;
use common::log_limit::LogLimit;
use hyper::StatusCode;
use hyper::header::{ALLOW, HeaderValue, RETRY_AFTER};
use maud::{Markup, html};
use std::time::Duration;
use uuid::Uuid;
use warp::reply::Response;

/// Bounds the log lines of failures: of a dependency, internal ones, and of the identity provider, which does not respond or whose
/// answer is refused.
static FAILURES: LogLimit<4> = LogLimit::new();

/// Why a request is not served.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no such page, or what it shows belongs to another tenant.
    NotFound,
    /// The path exists for another method.
    MethodNotAllowed(&'static str),
    /// Nobody is signed in.
    NotSignedIn,
    /// The role does not allow it.
    Forbidden,
    /// Another site's page sent the request, or a page of another session.
    CrossSite,
    /// The body is too large.
    TooLarge,
    /// The request is malformed; the text says how.
    BadRequest(&'static str),
    /// Too much of the same kind is under way: requests or bodies, also of one address, downloads, checks of receivers,
    /// or uses of the broker.
    Overloaded,
    /// Too many failed attempts to sign in.
    TooManyAttempts(Duration),
    Operation(AdminError),
    /// The database failed outside of an operation.
    Database(TxError),
    /// The identity provider does not sign the person in.
    Provider(ProviderError),
    /// A handler panicked: 500.
    Panicked,
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        if error.kind() == ErrorKind::NotFound { Self::NotFound } else { Self::Operation(error) }
    }
}

impl From<BodyFault> for Failure {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::TooLarge(_) => Self::TooLarge,
            BodyFault::Late => Self::BadRequest("the body did not arrive in time"),
            BodyFault::Broken => Self::BadRequest("the body did not arrive completely"),
            BodyFault::NoMemory => Self::Overloaded,
        }
    }
}

impl From<TxError> for Failure {
    fn from(error: TxError) -> Self {
        Self::Database(error)
    }
}

impl Failure {
    /// The status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotSignedIn => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::CrossSite => StatusCode::FORBIDDEN,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::TooManyAttempts(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Operation(error) => match error.kind() {
                ErrorKind::NotFound => StatusCode::NOT_FOUND,
                ErrorKind::Refused => StatusCode::CONFLICT,
                ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
                ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            },
            Self::Provider(ProviderError::Unusable { .. } | ProviderError::Refused(_)) => StatusCode::FORBIDDEN,
            Self::Overloaded | Self::Database(_) | Self::Provider(ProviderError::Unavailable(_)) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The status, a heading, and what to do.
    fn explanation(&self) -> (StatusCode, &'static str, String) {
        let (heading, text) = match self {
            Self::NotFound => ("Not found", "There is no such page, or you may not see it.".to_owned()),
            Self::MethodNotAllowed(_) => {
                ("Not available in this way", "Go back and use the buttons of the page.".to_owned())
            }
            Self::NotSignedIn => {
                ("You are not signed in", "Your session has ended. Nothing was changed.".to_owned())
            }
            Self::Forbidden => (
                "Not permitted",
                "Your role does not permit this. Ask an administrator of the agency, or the operator.".to_owned(),
            ),
            Self::CrossSite => (
                "Request refused",
                "The form was not sent by a page of this site that you have opened since you signed in. Nothing was changed. Open the page again and repeat.".to_owned(),
            ),
            Self::TooLarge => ("Too large", "The form is longer than this page accepts.".to_owned()),
            Self::Overloaded => (
                "Too much at once",
                "Nothing was changed. Try again in a moment.".to_owned(),
            ),
            Self::BadRequest(what) => ("Malformed request", format!("Nothing was changed: {what}.")),
            Self::TooManyAttempts(wait) => (
                "Too many attempts",
                format!("Wait {} seconds before you try to sign in again.", wait.as_secs().max(1)),
            ),
            Self::Operation(error) if error.kind() == ErrorKind::Refused => {
                ("Not possible", format!("{error}."))
            }
            Self::Operation(error) if error.kind() == ErrorKind::Internal => (
                "Something went wrong",
                "The operator finds the reason in the log, by the id below.".to_owned(),
            ),
            Self::Database(_) | Self::Operation(AdminError::NoConnection(_) | AdminError::Database(_)) => {
                // Without a link: the page of the runbook needs the database.
                let line = Attention::database_unreachable();
                ("Temporarily unavailable", format!("{} {}.", line.text, line.next_with_section()))
            }
            Self::Operation(error @ (AdminError::Broker(_) | AdminError::BrokerUnavailable)) => (
                "Temporarily unavailable",
                format!("RabbitMQ cannot be used: {error}. Try again in a moment."),
            ),
            Self::Operation(error) => ("Temporarily unavailable", format!("{error}.")),
            Self::Provider(ProviderError::Refused(_)) => (
                "You are not signed in",
                "The answer of the identity provider is not valid for this sign-in. Begin again. If that does not help, give the id below to the operator of Connect.".to_owned(),
            ),
            Self::Provider(ProviderError::Unusable { field, .. }) => (
                "You are not signed in",
                format!("The identity provider has responded, but the provider's answer can't be used: {field}. Trying again does not help. Give the id below to the operator of Connect, or ask for a link: links work without it."),
            ),
            Self::Provider(ProviderError::Unavailable(_)) => (
                "The sign-in service does not respond",
                "The identity provider cannot be used at the moment. Try again later, or ask the operator of Connect for a link: links work without it.".to_owned(),
            ),
            Self::Panicked => (
                "Something went wrong",
                "The operator finds the reason in the log, by the id below.".to_owned(),
            ),
        };
        (self.status(), heading, text)
    }

    /// Logs what an operator must know.
    fn log(&self, id: Uuid) {
        match self {
            Self::Operation(error) if error.kind() == ErrorKind::Internal => {
                let error = admin::describe(error);
                limited!(FAILURES[1], error, request_id = %id, error, "request to the console failed; responding 500");
            }
            Self::Operation(error) if error.kind() == ErrorKind::Unavailable => {
                let error = admin::describe(error);
                limited!(FAILURES[0], warn, request_id = %id, error, "dependency of the console unavailable; responding 503");
            }
            Self::Database(error) => {
                limited!(FAILURES[0], warn, request_id = %id, %error, "dependency of the console unavailable; responding 503");
            }
            Self::Provider(error @ (ProviderError::Unusable { .. } | ProviderError::Refused(_))) => {
                limited!(FAILURES[3], warn, request_id = %id, %error, "sign-in by OpenID Connect refused; responding 403");
            }
            Self::Provider(error @ ProviderError::Unavailable(_)) => {
                limited!(FAILURES[2], warn, request_id = %id, %error, "OpenID Connect provider unavailable; responding 503");
            }
            Self::Panicked => {
                limited!(FAILURES[1], error, request_id = %id, error = "panic", "request to the console failed; responding 500");
            }
            Self::Operation(_)
            | Self::NotFound
            | Self::MethodNotAllowed(_)
            | Self::NotSignedIn
            | Self::Forbidden
            | Self::CrossSite
            | Self::TooLarge
            | Self::Overloaded
            | Self::BadRequest(_)
            | Self::TooManyAttempts(_) => {}
        }
    }

    /// The page that says why.
    pub(crate) fn into_response(self, id: Uuid) -> Response {
        self.into_page(id, true, |status, heading, content| respond(status, layout::bare(heading, content)))
    }

    /// The same page with the menu of the person who is signed in.
    pub(crate) fn into_response_to(self, context: &Context<'_>) -> Response {
        let id = context.request.id;
        if matches!(self, Self::NotSignedIn) {
            return self.into_response(id);
        }
        self.into_page(id, false, |status, heading, content| layout::page_with(context, status, heading, content))
    }

    fn into_page(self, id: Uuid, sign_in: bool, page: impl FnOnce(StatusCode, &str, &Markup) -> Response) -> Response {
        self.log(id);
        let (status, heading, text) = self.explanation();
        let content = html! {
            p { (text) }
            @if let Self::Operation(AdminError::Broker(_)) = &self { p { (crate::pages::runbook::link("ConnectBrokerDisconnected")) } }
            p { a href="/" { "To the start page" } @if sign_in { " · " a href="/sign-in" { "Sign in" } } }
            p.soft { "Request id: " code { (id) } }
        };
        let mut response = page(status, heading, &content);
        let headers = response.headers_mut();
        if let Self::MethodNotAllowed(allowed) = self {
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        } else if let Self::TooManyAttempts(wait) = self {
            headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        } else if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

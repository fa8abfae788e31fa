//! Mails to agencies about what needs their attention, and what has recovered.
//!
//! One task looks at some agencies with an address in each round, in turn. It has its own connection to the database, and limits the
//! time of everything, so that no page waits for it. Copies of the console agree in the database on who sends what.

use crate::contacts::Contacts as _;
use admin::attention::{
    self, AgencyOverview, AttentionNews, MailRecipient, Scope, claim_news, confirm_news, mail_recipients, postpone_news,
};
use common::db::{Client as PooledClient, Database, PoolSettings};
use common::log_limit::LogLimit;
use common::periodic::ticks;
use common::sealed::Secret;
use common::settings::{ConsoleUrl, DatabaseUrl, Environment, Section, SettingError, Variable, error, is_loopback};
use common::{limited, variables};
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::AsyncSmtpTransportBuilder;
use lettre::transport::smtp::authentication::Credentials;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use percent_encoding::percent_decode_str;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::Client;
use url::Url;
use uuid::Uuid;

const URL: &str = "CONNECT_SMTP_URL";
const FROM: &str = "CONNECT_SMTP_FROM";

/// How often agencies are looked at, and how many of them.
const INTERVAL: Duration = Duration::from_secs(15);
const AGENCIES: i64 = 100;
/// Longest time for what is asked of the database about an agency, and for one statement of it.
const DATABASE_WITHIN: Duration = Duration::from_secs(10);
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for one command of SMTP, and for a mail: shorter than the minute for which a mail is claimed.
const COMMAND_WITHIN: Duration = Duration::from_secs(10);
const SEND_WITHIN: Duration = Duration::from_secs(40);

/// Limits the log lines: rounds that fail, and addresses that are refused.
static FAILED: LogLimit<2> = LogLimit::new();

type Transport = AsyncSmtpTransport<Tokio1Executor>;

/// The mail server, and the sender's address.
#[derive(Clone, Debug)]
pub(crate) struct MailSettings {
    server: AsyncSmtpTransportBuilder,
    from: Mailbox,
}

/// `None` without a mail server: no mails are sent.
pub(crate) struct OptionalMails(pub(crate) Option<MailSettings>);

impl Section for OptionalMails {
    const VARIABLES: &'static [Variable] = variables! {
        URL => optional, "mail server for mails to agencies about what needs their attention, such as smtps://user:password@mail.example.com; smtp:// uses STARTTLS, except on loopback hosts; without it no mails are sent";
        FROM => optional, "sender of these mails, such as connect@example.com or Connect <connect@example.com>";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        match (env.optional::<Self, Secret>(URL)?, env.optional::<Self, String>(FROM)?) {
            (None, None) => Ok(Self(None)),
            (None, Some(_)) => Err(error(URL, &format!("is required with {FROM}"))),
            (Some(_), None) => Err(error(FROM, &format!("is required with {URL}"))),
            (Some(url), Some(from)) => {
                let what =
                    "must be a URL such as smtps://user:password@mail.example.com or smtp://mail.example.com:587";
                let server = server(url.reveal()).ok_or_else(|| error(URL, what))?;
                let from = from.parse().map_err(|_| {
                    error(FROM, "must be an address such as connect@example.com or Connect <connect@example.com>")
                })?;
                Ok(Self(Some(MailSettings { server, from })))
            }
        }
    }
}

/// The server of a URL. Only on this machine it is used without TLS.
fn server(text: &str) -> Option<AsyncSmtpTransportBuilder> {
    let url: Url = text.parse().ok()?;
    let host = url.host_str().filter(|host| !host.is_empty())?.trim_matches(['[', ']']);
    let mut server = match url.scheme() {
        "smtps" => Transport::relay(host).ok()?,
        "smtp" if is_loopback(host) => Transport::builder_dangerous(host),
        "smtp" => Transport::starttls_relay(host).ok()?,
        _ => return None,
    };
    if let Some(port) = url.port() {
        server = server.port(port);
    }
    if !url.username().is_empty() {
        let decoded = |part: &str| Some(percent_decode_str(part).decode_utf8().ok()?.into_owned());
        let password = decoded(url.password().unwrap_or_default())?;
        server = server.credentials(Credentials::new(decoded(url.username())?, password));
    }
    Some(server.timeout(Some(COMMAND_WITHIN)))
}

/// Sends the mails.
pub(crate) struct Mails {
    server: Transport,
    from: Mailbox,
    database: Database,
    console: ConsoleUrl,
}

impl Mails {
    pub(crate) fn new(settings: MailSettings, database: &DatabaseUrl, console: ConsoleUrl) -> Self {
        let pool = PoolSettings {
            name: "console",
            size: 1,
            wait: STATEMENT_TIMEOUT,
            statement_timeout: STATEMENT_TIMEOUT,
            durable: true,
        };
        let MailSettings { server, from } = settings;
        Self { server: server.build(), from, database: Database::new(database, pool), console }
    }

    /// Sends what there is to tell, until the program ends.
    pub(crate) async fn send_regularly(self) {
        let (mut ticks, mut after) = (ticks(INTERVAL), Uuid::nil());
        loop {
            ticks.tick().await;
            let client = match self.database.client().await {
                Ok(client) => client,
                Err(error) => {
                    limited!(FAILED[0], warn, %error, "looking for what agencies are to be told by mail failed; trying again");
                    continue;
                }
            };
            if let Err(error) = self.round(&client, &mut after).await {
                limited!(FAILED[0], warn, error, "telling agencies by mail what needs attention failed; trying again");
                // It may hang.
                drop(PooledClient::take(client));
            }
        }
    }

    /// Tells the next agencies after one, and moves on. An error of the servers ends the round, because the others would meet
    /// it as well.
    async fn round(&self, client: &Client, after: &mut Uuid) -> Result<(), String> {
        let agencies = in_time(mail_recipients(client, *after, AGENCIES)).await?;
        for agency in &agencies {
            *after = agency.tenant.0;
            self.tell(client, agency).await?;
        }
        if i64::try_from(agencies.len()) != Ok(AGENCIES) {
            *after = Uuid::nil();
        }
        Ok(())
    }

    async fn tell(&self, client: &Client, agency: &MailRecipient) -> Result<(), String> {
        let asked = async {
            let mut overview = AgencyOverview::load(client, agency.tenant, &agency.slug).await?;
            overview.keys.mask();
            let found = attention::find(client, Scope::Agency(&overview)).await?;
            claim_news(client, agency.tenant, &found).await
        };
        let news = in_time(asked).await?;
        if news.is_empty() {
            return Ok(());
        }
        let (refused, is_final) = match self.message(agency, &news) {
            Err(error) => (error, true),
            Ok(message) => match timeout(SEND_WITHIN, self.server.send(message)).await {
                Ok(Ok(_)) => return in_time(confirm_news(client, agency.tenant, &news)).await,
                Ok(Err(error)) if error.is_permanent() || error.is_transient() => {
                    (admin::describe(&error), error.is_permanent())
                }
                Ok(Err(error)) => return Err(admin::describe(&error)),
                Err(_) => return Err("the mail server did not take a mail in time".to_owned()),
            },
        };
        let how = if is_final { "refused for good; trying again in an hour" } else { "refused; trying again" };
        limited!(FAILED[1], warn, tenant = agency.slug, error = refused, "a mail about what needs attention was {how}");
        if is_final { in_time(postpone_news(client, agency.tenant, &news)).await } else { Ok(()) }
    }

    fn message(&self, agency: &MailRecipient, news: &[AttentionNews]) -> Result<Message, String> {
        let to = agency.email.parse::<Address>().map_err(|error| format!("the address is not valid: {error}"))?;
        let page = format!("{}/agencies/{}", self.console, agency.slug);
        let (subject, body) = text(&agency.slug, &page, news);
        let message = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            .subject(subject)
            .message_id(Some(format!("<{}@{}>", Uuid::now_v7(), self.from.email.domain())))
            .header(ContentType::TEXT_PLAIN)
            .body(body);
        let mut message = message.map_err(|error| error.to_string())?;
        // No program responds to it, such as one that tells of an absence.
        let name = HeaderName::new_from_ascii_str("Auto-Submitted");
        message.headers_mut().insert_raw(HeaderValue::new(name, "auto-generated".to_owned()));
        Ok(message)
    }
}

async fn in_time<T>(asked: impl Future<Output = admin::Result<T>>) -> Result<T, String> {
    match timeout(DATABASE_WITHIN, asked).await {
        Ok(answer) => answer.map_err(|error| admin::describe(&error)),
        Err(_) => Err("the database does not respond in time".to_owned()),
    }
}

/// The subject and the body of a mail. It contains nothing of a person.
fn text(slug: &str, page: &str, news: &[AttentionNews]) -> (String, String) {
    let (recovered, begun): (Vec<_>, Vec<_>) = news.iter().partition(|one| one.has_recovered);
    let what = if begun.is_empty() { "has recovered" } else { "needs attention" };
    let mut body = String::new();
    for (heading, list) in [("Needs attention:", begun), ("Has recovered, and was:", recovered)] {
        if !list.is_empty() {
            body.push_str(heading);
            list.iter().for_each(|one| body.push_str(&format!("\n- {}", one.text)));
            body.push_str("\n\n");
        }
    }
    body.push_str(&format!(
        "Where to look: {page}\n\nFor each cause at most one mail an hour is sent. Other addresses, or none: {page}/settings\n"
    ));
    (format!("Connect: {slug} {what}"), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_tls_or_is_on_this_machine_and_needs_a_sender() {
        let read = |pairs: &[(&str, &str)]| OptionalMails::from_env(&Environment::from_pairs(pairs));
        let sender = (FROM, "Connect <connect@example.com>");
        for right in ["smtps://a:p%40ss@mail.example.com", "smtp://mail.example.com:587", "smtp://[::1]:2525"] {
            let settings = read(&[(URL, right), sender]).ok().and_then(|read| read.0).unwrap();
            assert!(!format!("{settings:?}").contains("p@ss"), "the password is not printed");
        }
        for wrong in ["mail.example.com", "http://mail.example.com", "smtp://"] {
            assert_eq!(read(&[(URL, wrong), sender]).err().unwrap().name, URL, "{wrong}");
        }
        assert_eq!(read(&[(URL, "smtp://localhost"), (FROM, "nobody")]).err().unwrap().name, FROM);
        assert_eq!(read(&[(URL, "smtp://localhost")]).err().unwrap().name, FROM);
        assert_eq!(read(&[sender]).err().unwrap().name, URL);
        assert!(read(&[]).ok().unwrap().0.is_none());
    }

    #[test]
    fn a_mail_tells_what_began_and_what_ended() {
        let news = |has_recovered| AttentionNews {
            cause: "x".to_owned(),
            text: format!("recovered: {has_recovered}"),
            has_recovered,
        };
        let (subject, body) = text("acme", "https://c.example/agencies/acme", &[news(true), news(false)]);
        assert_eq!(subject, "Connect: acme needs attention");
        let lists = "Needs attention:\n- recovered: false\n\nHas recovered, and was:\n- recovered: true\n\n";
        assert!(body.starts_with(lists) && body.contains("https://c.example/agencies/acme\n"), "{body}");
        assert_eq!(text("acme", "", &[news(true)]).0, "Connect: acme has recovered");
    }
}

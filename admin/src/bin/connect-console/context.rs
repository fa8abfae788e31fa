//! What a page or a change gets to work with.

use crate::access::SameOrigin;
use crate::app::App;
use crate::contacts::Contacts;
use crate::database::Lease;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::request::Request;
use crate::response::redirect;
use admin::audit::Actor;
use admin::console::{FormResult, Role, SentForm, Session};
use admin::tenants::Tenant;
use admin::{Result, Steps};
use std::ops::Deref;
use tokio_postgres::Client;
use warp::reply::Response;

/// What a request is about, and who sent it.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) app: &'a App,
    pub(crate) request: &'a Request,
    pub(crate) session: &'a Session,
    /// The token of the session.
    pub(crate) token: &'a str,
    /// The tenant in the path.
    tenant: Option<&'a Tenant>,
    /// The id in the path.
    id: Option<&'a str>,
}

impl<'a> Context<'a> {
    pub(crate) const fn new(
        app: &'a App, request: &'a Request, (session, token): (&'a Session, &'a str), tenant: Option<&'a Tenant>,
        id: Option<&'a str>,
    ) -> Self {
        Self { app, request, session, token, tenant, id }
    }

    /// Takes a connection to the database, for a request that has none.
    pub(crate) async fn lease(&self) -> Result<Lease, Failure> {
        let agency = self.session.tenant_slug.as_deref();
        Ok(self.app.database.of_agency(agency, &self.request.database_time).await?)
    }

    /// The tenant whose page it is.
    pub(crate) fn tenant(&self) -> Result<&'a Tenant, Failure> {
        self.tenant.ok_or(Failure::NotFound)
    }

    /// The tenant whose page it is, if it belongs to one.
    pub(crate) const fn tenant_if_any(&self) -> Option<&'a Tenant> {
        self.tenant
    }

    /// The id in the path.
    pub(crate) fn id(&self) -> Result<&'a str, Failure> {
        self.id.ok_or(Failure::NotFound)
    }

    /// Whether the person may do what needs `role`. Only hides what would be refused: rights are checked before a handler runs.
    pub(crate) fn may(&self, role: Role) -> bool {
        self.session.role() >= role
    }

    /// Whether the person sees contact data. Discovery records, messages and bodies may contain it in any form, so pages load them for
    /// nobody else.
    pub(crate) fn sees_contacts(&self) -> bool {
        self.may(Role::Admin)
    }

    /// What was loaded, as the person may see it. A page shows nothing about people that has not passed here.
    pub(crate) fn shown<T: Contacts>(&self, mut loaded: T) -> T {
        if !self.sees_contacts() {
            loaded.mask();
        }
        loaded
    }

    /// The path of a page of the tenant, `path` below its start page.
    pub(crate) fn tenant_path(&self, path: &str) -> String {
        let slug = self.tenant.map_or("", |tenant| tenant.slug.as_str());
        format!("/agencies/{slug}{path}")
    }
}

/// A page: it reads, and can change nothing.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    context: Context<'a>,
    client: &'a Client,
}

impl<'a> View<'a> {
    pub(crate) const fn new(context: Context<'a>, client: &'a Client) -> Self {
        Self { context, client }
    }

    pub(crate) const fn client(&self) -> &'a Client {
        self.client
    }
}

impl<'a> Deref for View<'a> {
    type Target = Context<'a>;

    fn deref(&self) -> &Self::Target {
        &self.context
    }
}

/// The database of a request that works on the broker.
pub(crate) struct RequestSteps<'a>(Context<'a>);

impl Steps for RequestSteps<'_> {
    async fn step<T>(&mut self, work: impl AsyncFnOnce(&mut Client) -> Result<T>) -> Result<T> {
        let Context { app, session, .. } = self.0;
        app.database.step(session.tenant_slug.as_deref(), work).await
    }
}

/// A change by somebody who may make it. There is no other way to the exclusive use of the database that changes need.
pub(crate) struct Change<'a> {
    context: Context<'a>,
    client: Lease,
    actor: Actor,
    form: Fields,
    sent: SentForm,
}

impl<'a> Change<'a> {
    /// A change of a request that one of the console's own pages has sent.
    pub(crate) fn new(_proof: SameOrigin, context: Context<'a>, client: Lease, form: Fields, sent: SentForm) -> Self {
        Self { context, client, actor: context.session.identity.actor(context.session.method), form, sent }
    }

    /// Waits for something outside of the database. The connection is given back meanwhile: a few people who wait for a name service
    /// would otherwise leave none to others.
    pub(crate) async fn without_database<T>(self, waited: impl Future<Output = T>) -> Result<(Self, T), Failure> {
        let Self { context, client, actor, form, sent } = self;
        drop(client);
        let output = waited.await;
        let client = context.lease().await?;
        Ok((Self { context, client, actor, form, sent }, output))
    }

    /// Runs the operation that the form asks for, and redirects to the page at `path`, which says what was done.
    pub(crate) async fn run<T>(
        mut self, path: String, operation: impl AsyncFnOnce(&mut Client, &Actor) -> Result<T>,
    ) -> Result<Response, Failure> {
        let page = redirect(&path);
        let actor = self.actor.with_form(&self.sent, FormResult { page: path, heading: None });
        operation(&mut self.client, &actor).await?;
        Ok(page)
    }

    /// [`run`](Self::run) for an operation on the broker. It has a connection to the database for each of its steps only: a few people
    /// who wait for the broker would otherwise leave none to others.
    pub(crate) async fn run_in_steps<T>(
        self, path: String, operation: impl AsyncFnOnce(&mut RequestSteps<'a>, &Actor) -> Result<T, Failure>,
    ) -> Result<Response, Failure> {
        let Self { context, client, actor, sent, .. } = self;
        drop(client);
        let page = redirect(&path);
        let actor = actor.with_form(&sent, FormResult { page: path, heading: None });
        operation(&mut RequestSteps(context), &actor).await?;
        Ok(page)
    }

    /// The database and who is signed in, for one operation that makes a secret, which a page with this heading shows. If the form is
    /// sent again, that page leads to the one at `path`, in which `{target}` stands for what the operation makes.
    pub(crate) fn secret_operation(&mut self, heading: &str, path: String) -> (&mut Client, Actor) {
        let result = FormResult { page: path, heading: Some(heading.to_owned()) };
        (&mut self.client, self.actor.with_form(&self.sent, result))
    }

    /// The database and who is signed in, for an operation that may be repeated with the same form, because it only reads.
    pub(crate) fn repeatable_operation(&mut self) -> (&mut Client, &Actor) {
        (&mut self.client, &self.actor)
    }

    /// The request's connection, for pages that only read.
    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    pub(crate) const fn form(&self) -> &Fields {
        &self.form
    }

    pub(crate) const fn context(&self) -> Context<'a> {
        self.context
    }

    /// The page of the form, to show it again.
    pub(crate) fn view(&self) -> View<'_> {
        View { context: self.context, client: &self.client }
    }
}

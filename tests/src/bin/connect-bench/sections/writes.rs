//! Records writes: the three that integrators send most.

use crate::caller::{Caller, Response};
use crate::figures::timed;
use crate::prepare::api_address;
use crate::random::Random;
use crate::request;
use futures_util::future::join_all;
use serde_json::Value;
use tests::{ApiKey, RECORDS, World};

/// Leads that a caller changes in turn.
const LEADS: usize = 20;

/// A kind of write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    CreateClient,
    CreateLead,
    ChangeTrip,
}

impl WriteKind {
    pub(crate) const ALL: [Self; 3] = [Self::CreateClient, Self::CreateLead, Self::ChangeTrip];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::CreateClient => "POST /clients",
            Self::CreateLead => "POST /leads",
            Self::ChangeTrip => "PATCH /leads/{id}/trip",
        }
    }
}

/// An integrator's connection, and the leads that it has created to change them.
#[derive(Debug)]
pub(crate) struct Integrator {
    caller: Caller,
    key: ApiKey,
    random: Random,
    leads: Vec<String>,
    changes: usize,
}

/// Opens `count` connections of integrators without leads.
pub(crate) async fn connect_all(world: &World, count: usize) -> Vec<Integrator> {
    let connect = async || {
        let (caller, key) = (Caller::connect(api_address(world)).await, world.key.clone());
        Integrator { caller, key, random: Random::new(), leads: Vec::new(), changes: 0 }
    };
    join_all((0..count).map(|_| connect())).await
}

impl Integrator {
    /// Opens a new connection: ingest closes one that was idle while a floor was measured.
    pub(crate) async fn reconnect(&mut self, world: &World) {
        self.caller = Caller::connect(api_address(world)).await;
    }

    /// Creates the leads whose trips it changes.
    pub(crate) async fn create_leads(&mut self) {
        for _ in 0..LEADS {
            let (response, _) = self.create_lead().await;
            let body: Value = serde_json::from_str(&response.body).expect("JSON");
            self.leads.push(body["data"]["id"].as_str().expect("the lead's id").to_owned());
        }
    }

    /// Sends one write, which must succeed; returns the time from request to response in seconds.
    pub(crate) async fn write(&mut self, write: WriteKind) -> f64 {
        match write {
            WriteKind::CreateClient => self.create_client().await,
            WriteKind::CreateLead => self.create_lead().await.1,
            WriteKind::ChangeTrip => self.change_trip().await,
        }
    }

    async fn create_client(&mut self) -> f64 {
        let sent = create_client(&self.key, &self.random.uuid().to_string());
        let (response, took) = timed(self.caller.send(&sent)).await;
        assert_eq!(response.status, 201, "{response:?}");
        took
    }

    async fn create_lead(&mut self) -> (Response, f64) {
        let id = self.random.uuid();
        let body = format!(
            r#"{{"contact":{{"name":"Bench Traveller","email":"{id}@example.net","phone":"+91 98 7654 3210"}},"externalId":"{id}","destination":"Kerala","travelDates":{{"startDate":"2026-11-02","endDate":"2026-11-12"}},"party":{{"adults":2,"children":1,"rooms":1}},"budget":{{"amount":250000,"currency":"INR"}},"message":"Two weeks in the south, one of them by boat.","attribution":{{"source":"google","medium":"cpc","campaign":"monsoon"}}}}"#
        );
        let target = format!("{RECORDS}/leads");
        let sent = request::records(&self.key, "POST", &target, &body, Some(&id.to_string()));
        let (response, took) = timed(self.caller.send(&sent)).await;
        assert_eq!(response.status, 201, "{response:?}");
        (response, took)
    }

    async fn change_trip(&mut self) -> f64 {
        self.changes += 1;
        let (change, lead) = (self.changes, &self.leads[self.changes % self.leads.len()]);
        let body = format!(
            r#"{{"destination":"Kerala, route {change}","party":{{"adults":{},"rooms":1}},"changeSummary":"change {change} of {}"}}"#,
            1 + change % 4,
            self.random.uuid()
        );
        let target = format!("{RECORDS}/leads/{lead}/trip");
        let sent = request::records(&self.key, "PATCH", &target, &body, None);
        let (response, took) = timed(self.caller.send(&sent)).await;
        assert_eq!(response.status, 200, "{response:?}");
        took
    }
}

/// A request that creates a client; `id` is new.
pub(crate) fn create_client(key: &ApiKey, id: &str) -> Vec<u8> {
    let body = format!(r#"{{"name":"Bench Traveller","email":"{id}@example.net","externalId":"{id}"}}"#);
    request::records(key, "POST", &format!("{RECORDS}/clients"), &body, Some(id))
}

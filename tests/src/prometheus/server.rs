//! A real Prometheus as a child process.

use crate::binaries::root;
use crate::eventually::{MAX_WAIT, eventually, until};
use crate::http::{HttpClient, HttpRequest};
use crate::program::Program;
use crate::services;
use crate::world::World;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The jobs of `ops/prometheus/prometheus.yml` for the programs of a [`World`], which the rules and the dashboard name.
pub const JOBS: [&str; 3] = ["connect-ingest", "connect-worker", "connect-dispatcher"];
/// The job for the settings area, which runs beside a world.
pub const CONSOLE_JOB: &str = "connect-console";
/// Interval of scrapes and rule evaluations.
const INTERVAL: &str = "1s";
/// Divisor of the durations in the rules: 1 m of production is 1.5 s here.
const RULE_SPEED_UP: u64 = 40;
/// Maximum time that an alert takes to fire or to resolve. Only a failing test waits this long.
const ALERT_TIMEOUT: Duration = Duration::from_secs(180);

/// A Prometheus with data of its own and the project's rules; killed with its value.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    http: HttpClient,
    directory: PathBuf,
}

/// One series of an instant query's response.
#[derive(Clone, Debug)]
pub struct Series {
    /// Labels, the name among them as `__name__`.
    pub labels: BTreeMap<String, String>,
    /// The value of the series.
    pub value: f64,
}

impl Prometheus {
    /// Starts a Prometheus without targets that scrapes every second, with the durations of `ops/prometheus` divided by 40.
    pub async fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = services::server_directory(&format!("prometheus{count}"));
        write_config(&directory);
        let port = services::run_script(&["free-port"]).trim().parse().expect("a port");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", directory.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap_or_else(|error| panic!("prometheus: {error}; see ops/local/services.sh install checks"));
        let started = Self { child, http: HttpClient::for_other_server(address), directory };
        for job in JOBS.iter().chain([&CONSOLE_JOB]) {
            started.set_targets(job, &[]);
        }
        eventually("Prometheus is ready", MAX_WAIT, async || match started.http.get("/-/ready").await {
            Ok(response) if response.status == 200 => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        started
    }

    /// Scrapes the programs of `world` that run now, and no others. A program that ends stays a target.
    pub fn watch(&self, world: &World) {
        for (job, programs) in JOBS.iter().zip([&world.ingests, &world.workers, &world.dispatchers]) {
            self.set_targets(job, &programs.iter().map(Program::operator_address).collect::<Vec<_>>());
        }
    }

    fn set_targets(&self, job: &str, addresses: &[SocketAddr]) {
        let (path, new) = (self.directory.join(format!("{job}.json")), self.directory.join("new"));
        // Moved when complete: Prometheus reads it when it changes.
        std::fs::write(&new, json!([{ "targets": addresses }]).to_string()).expect("a file of targets");
        std::fs::rename(&new, &path).expect("a file of targets");
    }

    /// The `data` of a response of Prometheus' API.
    pub async fn api(&self, path: &str, query: &[(&str, &str)]) -> Value {
        let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        let request = HttpRequest::new("GET", &format!("/api/v1/{path}?{}", query.join("&")), "");
        let response = self.http.send(&request).await.json();
        assert_eq!(response["status"], "success", "{path} {query:?}: {response}");
        response["data"].clone()
    }

    /// The series that an instant query returns now.
    pub async fn query(&self, expression: &str) -> Vec<Series> {
        let data = self.api("query", &[("query", expression)]).await;
        if data["resultType"] == "scalar" {
            return vec![Series { labels: BTreeMap::new(), value: number(&data["result"][1]) }];
        }
        data["result"].as_array().expect("a vector").iter().map(Series::of).collect()
    }

    /// All rules that alert.
    pub async fn alert_rules(&self) -> Vec<Value> {
        let data = self.api("rules", &[("type", "alert")]).await;
        let groups = data["groups"].as_array().expect("groups").iter();
        groups.flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect()
    }

    /// All firing and pending alerts.
    pub async fn alerts(&self) -> Vec<Value> {
        self.api("alerts", &[]).await["alerts"].as_array().expect("alerts").clone()
    }

    /// Waits until an alert with these labels fires, and returns it.
    pub async fn until_firing(&self, name: &str, labels: &[(&str, &str)]) -> Value {
        eventually(&format!("{name} {labels:?} fires"), ALERT_TIMEOUT, async || {
            let alerts = self.alerts().await;
            let found = alerts.iter().find(|alert| is(alert, name, labels) && alert["state"] == "firing");
            found.cloned().ok_or_else(|| format!("{alerts:?}"))
        })
        .await
    }

    /// Waits until no alert of that name and with these labels is firing or pending.
    pub async fn until_resolved(&self, name: &str, labels: &[(&str, &str)]) {
        eventually(&format!("{name} {labels:?} resolves"), ALERT_TIMEOUT, async || {
            let alerts = self.alerts().await;
            match alerts.iter().find(|alert| is(alert, name, labels)) {
                None => Ok(()),
                Some(alert) => Err(alert.to_string()),
            }
        })
        .await;
    }

    /// Waits until all programs are scraped and no alert is firing or pending.
    pub async fn until_quiet(&self) {
        let up = async || self.query("count by (job) (up == 1)").await;
        until("all programs are up", up, |up| up.len() >= JOBS.len()).await;
        eventually("no alert fires", ALERT_TIMEOUT, async || match self.alerts().await.as_slice() {
            [] => Ok(()),
            alerts => Err(format!("{alerts:?}")),
        })
        .await;
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

impl Series {
    fn of(sample: &Value) -> Self {
        let labels = serde_json::from_value(sample["metric"].clone()).expect("labels");
        Self { labels, value: number(&sample["value"][1]) }
    }
}

fn number(text: &Value) -> f64 {
    text.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no number: {text}"))
}

fn is(alert: &Value, name: &str, labels: &[(&str, &str)]) -> bool {
    alert["labels"]["alertname"] == name && labels.iter().all(|(label, value)| alert["labels"][*label] == *value)
}

/// Writes the project's rules with divided durations, and the project's jobs with targets from files.
fn write_config(directory: &Path) {
    let rules = directory.join("rules");
    std::fs::create_dir_all(&rules).expect("a directory for Prometheus");
    for file in std::fs::read_dir(root().join("ops/prometheus/rules")).expect("the rules") {
        let path = file.expect("a file of rules").path();
        let text = std::fs::read_to_string(&path).expect("rules");
        let copy = rules.join(path.file_name().expect("a file's name"));
        std::fs::write(copy, divide_durations(&text, RULE_SPEED_UP)).expect("a copy of the rules");
    }
    let job = |job: &&str| {
        let path = directory.join(format!("{job}.json"));
        json!({"job_name": job, "file_sd_configs": [{"files": [path], "refresh_interval": "1s"}]})
    };
    let jobs: Vec<Value> = JOBS.iter().chain([&CONSOLE_JOB]).map(job).collect();
    let config = json!({
        "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": [rules.join("*.yml")],
        "scrape_configs": jobs,
    });
    // JSON is YAML.
    std::fs::write(directory.join("prometheus.yml"), config.to_string()).expect("Prometheus' settings");
}

/// Text as a part of a URL's query.
fn escape(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    });
    escaped.collect()
}

/// Seconds of a unit.
const UNITS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];

/// The rules with every duration divided: `for`, ranges, offsets, and also durations in comments and texts.
pub(super) fn divide_durations(rules: &str, divisor: u64) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.');
    let mut divided = String::with_capacity(rules.len());
    let mut rest = rules;
    while !rest.is_empty() {
        let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        match milliseconds(word) {
            Some(length) => divided.push_str(&format!("{}ms", length / divisor)),
            None => divided.push_str(word),
        }
        rest = &rest[word.len()..];
        let between = rest.find(is_word).unwrap_or(rest.len());
        divided.push_str(&rest[..between]);
        rest = &rest[between..];
    }
    divided
}

/// The length of a duration such as `5m`.
fn milliseconds(word: &str) -> Option<u64> {
    let (unit, seconds) = UNITS.into_iter().find(|(unit, _)| word.ends_with(unit))?;
    let count: u64 = word.strip_suffix(unit)?.parse().ok()?;
    Some(count * seconds * 1_000)
}

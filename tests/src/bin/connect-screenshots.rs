//! Takes the pictures of the settings area and of the API's page that the documents show.
//!
//! `connect-screenshots [DIRECTORY [PATH...]]` writes PNG files to a directory, `docs/pictures` if none is given; of each further
//! path below the agency's in several widths and colors, to look at them. A path that ends in `/first` is that of the first
//! row of its list. The agency has enquiries, a receiver that works, and one that fails.

use serde_json::json;
use std::path::{Path, PathBuf};
use tests::browser::{Browser, ColorScheme, Page};
use tests::{Behavior, MAX_WAIT, Program, Receiver, World, event, eventually, text, until};

/// Size of the window in pixels.
const SIZE: (u32, u32) = (1280, 860);

/// Travelers and where they want to go.
const ENQUIRIES: [(&str, &str, u32); 6] = [
    ("Ana", "Ten days in Kerala", 2),
    ("Ben", "Lisbon and the Algarve", 4),
    ("Cara", "Northern lights in Tromsø", 2),
    ("Di", "Safari in the Serengeti", 3),
    ("Elif", "Kyoto in the autumn", 2),
    ("Finn", "Sailing around Milos", 5),
];

#[tokio::main]
async fn main() {
    let default = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures"));
    let directory = std::env::args().nth(1).map_or(default, PathBuf::from);
    std::fs::create_dir_all(&directory).expect("the directory for the pictures");
    let builder = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let world = builder.set("CONNECT_WEBHOOK_ATTEMPTS", "2").set("CONNECT_WEBHOOK_BACKOFF_BASE", "1s").start().await;
    let receiver = Receiver::http();
    furnish(&world, &receiver).await;
    let console = Program::console(world.settings()).await;
    let browser = Browser::start().await;
    let page = browser.page().await;
    page.set_size(SIZE.0, SIZE.1).await;
    let base = format!("http://{}", console.http().address());
    sign_in(&world, &page, &base).await;
    for (name, path) in [
        ("overview", ""),
        ("deliveries", "/deliveries"),
        ("delivery", "/deliveries/first"),
        ("event", "/find?id=site-2026-1003"),
    ] {
        open(&page, &base, path).await;
        picture(&page, &directory, name).await;
    }
    for path in std::env::args().skip(2) {
        open(&page, &base, &path).await;
        for (width, colors) in
            [1280, 800, 390].map(|width| (width, ColorScheme::Light)).into_iter().chain([(1280, ColorScheme::Dark)])
        {
            page.set_size(width, 1600).await;
            page.set_colors(colors).await;
            let name = format!("{}-{width}-{colors:?}", path.replace(['/', '?', '='], "_"));
            picture(&page, &directory, &name).await;
        }
    }
    page.set_size(SIZE.0, SIZE.1).await;
    page.set_colors(ColorScheme::Light).await;
    page.open(&format!("http://{}/docs#/Events/sendEvents", world.http().address())).await;
    eventually("the operation is shown", MAX_WAIT, async || {
        let shown = "!!document.querySelector('#operations-Events-sendEvents .opblock-body')";
        if page.evaluate(shown).await == true { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    picture(&page, &directory, "docs").await;
}

/// Opens a page of the agency, or that of the first row of a list.
async fn open(page: &Page, base: &str, path: &str) {
    page.open(&format!("{base}/agencies/acme{}", path.trim_end_matches("/first"))).await;
    if path.ends_with("/first") {
        let first = page.evaluate("document.querySelector('main th a').href").await;
        page.open(text(&first)).await;
    }
}

async fn picture(page: &Page, directory: &Path, name: &str) {
    let file = directory.join(format!("{name}.png"));
    std::fs::write(&file, page.screenshot().await).expect("a file for the picture");
    println!("{}", file.display());
}

async fn sign_in(world: &World, page: &Page, base: &str) {
    let login = ["console", "login", "--tenant", "acme", "--role", "admin", "--name", "Ada Byron"];
    let created = world.connectctl.json(&login).await;
    let path = text(&created["url"]).splitn(4, '/').nth(3).expect("a path").to_owned();
    page.open(&format!("{base}/{path}")).await;
    page.follow("Sign in").await;
}

/// Makes what the pictures show.
async fn furnish(world: &World, receiver: &Receiver) {
    let create = [
        "key", "create", "--tenant", "acme", "--name", "Web site", "--scopes", "events:ingest", "--origin", "web-site",
    ];
    world.connectctl.json(&create).await;
    receiver.respond("/crm-sync", Behavior::status(503).with_body("maintenance until 10:00"));
    for path in ["/newsletter", "/crm-sync"] {
        world.subscribe(&receiver.url(path)).await;
    }
    for (number, (name, title, adults)) in (1001..).zip(ENQUIRIES) {
        let email = format!("{}@example.com", name.to_lowercase());
        let payload = json!({
            "title": title, "destination": title, "paxCount": adults, "message": "Please call me in the evening.",
            "attribution": {"source": "newsletter", "campaign": "autumn"},
        });
        let sent = event("enquiry.submitted").id(&format!("site-2026-{number}")).email(&email).name(name);
        world.accept(sent.payload(payload)).await;
    }
    let dead = "SELECT count(*) FROM deliveries WHERE state = 'dead'";
    let count = async || world.database.count(dead).await;
    until("deliveries are dead-lettered", count, |&count| count >= 6).await;
    add_last_hour(world).await;
}

/// Waits until the programs have counted what they did, and adds the counts of the minutes before, because the charts show an
/// hour.
async fn add_last_hour(world: &World) {
    let counted =
        "SELECT coalesce(sum(accepted + applied + delivered), 0)::bigint FROM activity_minutes WHERE slot < 64";
    let count = async || world.database.count(counted).await;
    until("the activity is counted", count, |&count| count >= 18).await;
    let add = "
        INSERT INTO activity_minutes (tenant_id, slot, minute, accepted, refused, applied, failed, delivered, undelivered)
        SELECT t.tenant_id, (extract(epoch FROM m.minute)::bigint / 60) % 64, m.minute, a.accepted, m.number % 9 / 8, 3 * a.accepted,
            m.number % 13 / 12, 2 * a.accepted, m.number % 7 / 6
        FROM tenants t,
            LATERAL (SELECT number, date_trunc('minute', now()) - number * interval '1 minute' AS minute
                FROM generate_series(2, 58) AS number) m,
            LATERAL (SELECT (12 + 8 * sin(m.number / 6.0) + m.number % 4)::bigint AS accepted) a
        WHERE t.slug = 'acme'
        ON CONFLICT DO NOTHING";
    world.database.execute(add).await;
}

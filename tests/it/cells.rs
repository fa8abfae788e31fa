//! Two cells behind HAProxy with the configuration of `ops/haproxy` (docs/scale.md).

use tests::dedicated_servers::LoadBalancer;
use tests::raw::RawConnection;
use tests::{ApiKey, EVENTS, HttpRequest, Program, World, batch, event};

/// A line of the configuration for an ingest of the test.
fn server(ingest: &Program) -> String {
    format!("{} port {}", ingest.http().address(), ingest.operator_address().port())
}

/// A batch of one event, with this text in `X-Connect-Tenant`.
fn sent(key: &ApiKey, tenant: &str) -> HttpRequest {
    let event = event("contact.identified").tenant(&key.tenant).email("ana@example.com");
    key.events(batch(&[event])).replacing("x-connect-tenant", tenant)
}

#[tokio::test]
async fn requests_reach_the_cell_of_their_agency_and_no_ingest_that_is_dead() {
    let behind_proxy =
        World::with().set("CONNECT_TRUSTED_PROXIES", "127.0.0.1").set("CONNECT_MAX_CONNECTIONS_PER_PEER", "1");
    let (mut one, two) = futures_util::join!(World::with().ingests(2).start(), behind_proxy.start());
    let (alpha, beta) = (one.add_tenant("alpha").await, two.add_tenant("beta").await);
    let ingests = [&one.ingests[0], &one.ingests[1], &two.ingests[0], &two.ingests[0]];
    let addresses = ["10.0.1.11:8080", "10.0.1.12:8080", "10.0.2.11:8080", "10.0.2.12:8080"];
    let servers: Vec<_> = addresses.into_iter().zip(ingests.map(server)).collect();
    let balancer = LoadBalancer::start(&servers, "alpha cell-1\nbeta cell-2\n").await;
    for (world, key) in [(&one, &alpha), (&two, &beta)] {
        for tenant in [key.tenant.clone(), key.tenant.to_uppercase()] {
            assert_eq!(balancer.http().send(&sent(key, &tenant)).await.json()["accepted"], 1, "{tenant}");
        }
        assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 2);
        let read = key.records("GET", "/api/v1/crm/connect/clients?email=ana%40example.com", "");
        assert_eq!(balancer.http().send(&read).await.json()["data"][0]["email"], "ana@example.com");
    }

    // A caller that writes other addresses into its requests still has a single share.
    let begin = async |header: &str| {
        let mut connection = RawConnection::from([127, 0, 0, 7], balancer.http().address()).await;
        let tenant = &beta.tenant;
        let head = format!("POST {EVENTS} HTTP/1.1\r\nhost: connect\r\nx-connect-tenant: {tenant}\r\n{header}\r\n");
        connection.send(format!("{head}content-length: 2\r\n\r\n{{")).await;
        connection
    };
    let _under_way = begin("x-forwarded-for: 198.51.100.1").await;
    two.ingests[0].until_sum("connect_http_connections", &[("state", "active")], 1.0).await;
    for forged in ["x-forwarded-for: 198.51.100.2", "forwarded: for=198.51.100.3"] {
        let refused = begin(forged).await.response().await.expect("a response");
        assert!(refused.status == 503 && refused.body.contains("overloaded"), "{refused:?}");
    }

    let gamma = two.add_tenant("gamma").await;
    for (key, tenant) in [(&gamma, "gamma"), (&beta, "alpha"), (&beta, "nobody")] {
        let message = balancer.http().send(&sent(key, tenant)).await.assert_error(401, "unauthorized");
        assert_eq!(message, "Invalid Connect credentials");
    }
    balancer.http().send(&sent(&beta, "").without("x-connect-tenant")).await.assert_error(401, "unauthorized");
    balancer.add_to_map("gamma", "cell-2").await;
    assert_eq!(balancer.http().send(&sent(&gamma, "gamma")).await.json()["accepted"], 1);

    one.ingests[1].kill();
    balancer.until_shown(r#"haproxy_server_status{proxy="cell-1",server="ingest-2",state="DOWN"} 1"#).await;
    for _ in 0..8 {
        assert_eq!(balancer.http().send(&sent(&alpha, "alpha")).await.json()["accepted"], 1);
    }
    one.ingests[0].kill();
    balancer.until_shown(r#"haproxy_server_status{proxy="cell-1",server="ingest-1",state="DOWN"} 1"#).await;
    assert_eq!(balancer.http().send(&sent(&beta, "beta")).await.json()["accepted"], 1);
    let other = tests::HttpClient::for_other_server(balancer.http().address());
    let refused = other.send(&sent(&alpha, "alpha")).await;
    assert_eq!(refused.header("retry-after"), "5");
    refused.assert_error(503, "overloaded");
}

#!/usr/bin/env node
// Signs a batch of events and sends it: send-batch.mjs ENQUIRY
//
// ENQUIRY is your own id of the enquiry, of letters, digits and dashes. The events' ids contain it: sent again, they
// are `duplicate` and have no second effect. With CONNECT_DRY_RUN=true nothing is written, and the results are those that
// the batch would have. Prints the results. Needs nothing but Node 18.

import { createHmac } from "node:crypto";
import { argv, env, exit } from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const SETTINGS = ["CONNECT_URL", "CONNECT_TENANT", "CONNECT_KEY", "CONNECT_SECRET"];
const { CONNECT_URL, CONNECT_TENANT, CONNECT_KEY, CONNECT_SECRET, CONNECT_DRY_RUN } = env;
const ATTEMPTS = 5;

const enquiry = argv[2] ?? "";
const wrong = /^[A-Za-z0-9-]{1,80}$/.test(enquiry) ? [] : ["ENQUIRY (letters, digits and dashes, at most 80)"];
wrong.push(...SETTINGS.filter((name) => !env[name]));
if (wrong.length > 0) {
  console.error(`usage: send-batch.mjs ENQUIRY, with CONNECT_URL, CONNECT_TENANT, CONNECT_KEY and CONNECT_SECRET set; missing or wrong: ${wrong.join(" ")}`);
  exit(2);
}

function event(eventId, eventType, payload = {}) {
  return {
    specVersion: "1.0",
    eventId,
    eventType,
    occurredAt: new Date().toISOString(),
    tenant: CONNECT_TENANT,
    origin: "example-site",
    actor: { type: "contact", email: "mira.sen@example.com", name: "Mira Sen" },
    payload,
  };
}

// One attempt: status, headers and text of the response. Status 0 and the reason when there was none.
async function send(body) {
  // Signs exactly the bytes that are sent: a body that is serialized again after signing does not verify.
  const time = Math.floor(Date.now() / 1000);
  const mac = createHmac("sha256", CONNECT_SECRET).update(`${time}.`).update(body).digest("hex");
  try {
    const response = await fetch(`${CONNECT_URL.replace(/\/+$/, "")}/api/v1/crm/connect/events`, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        "X-Connect-Key": CONNECT_KEY,
        "X-Connect-Tenant": CONNECT_TENANT,
        "X-Connect-Signature": `t=${time},v1=${mac}`,
        ...(CONNECT_DRY_RUN ? { "Connect-Dry-Run": CONNECT_DRY_RUN } : {}),
      },
      body,
      signal: AbortSignal.timeout(30_000),
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  } catch (error) {
    return { status: 0, headers: new Headers(), text: String(error.cause ?? error) };
  }
}

// Milliseconds until the next attempt: what the response asks for, else a second. A timer may be a moment early, and in
// the same second it would be the same signature.
function wait(headers) {
  const asked = headers.get("retry-after") ?? "";
  return 1000 * (/^[0-9]+$/.test(asked) ? Math.max(1, Number(asked)) : 1) + 10;
}

const body = Buffer.from(JSON.stringify({
  events: [
    event(`${enquiry}-contact`, "contact.identified"),
    event(`${enquiry}-enquiry`, "enquiry.submitted", { externalLeadId: enquiry, destination: "Kerala", paxCount: 2 }),
  ],
}));

let response;
for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
  response = await send(body);
  if (![0, 503].includes(response.status) || attempt === ATTEMPTS) break;
  // The events may have been applied or not. Sending them again is safe either way; each attempt is signed again.
  await sleep(wait(response.headers));
}
if (response.status !== 200) {
  const refused = `refused with ${response.status}, X-Request-Id ${response.headers.get("x-request-id")}: ${response.text}`;
  console.error(response.status === 0 ? `no response: ${response.text}` : refused);
  exit(1);
}
console.log(response.text);

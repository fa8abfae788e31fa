#!/usr/bin/env node
// Signs a batch of events and sends it: send-batch.mjs ENQUIRY
//
// ENQUIRY is your own id of the enquiry. The events' ids are made of it: sent again, they are `duplicate` and have no
// second effect. Prints the results. Needs nothing but Node 18.

import { createHmac } from "node:crypto";
import { argv, env, exit } from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const { CONNECT_URL, CONNECT_TENANT, CONNECT_KEY, CONNECT_SECRET } = env;

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

// One attempt.
function send(body) {
  // Over the very bytes that are sent: what is serialised again after signing doesn't verify.
  const time = Math.floor(Date.now() / 1000);
  const mac = createHmac("sha256", CONNECT_SECRET).update(`${time}.`).update(body).digest("hex");
  return fetch(`${CONNECT_URL}/api/v1/crm/connect/events`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      "X-Connect-Key": CONNECT_KEY,
      "X-Connect-Tenant": CONNECT_TENANT,
      "X-Connect-Signature": `t=${time},v1=${mac}`,
    },
    body,
    signal: AbortSignal.timeout(30_000),
  });
}

const enquiry = argv[2];
const body = Buffer.from(JSON.stringify({
  events: [
    event(`${enquiry}-contact`, "contact.identified"),
    event(`${enquiry}-enquiry`, "enquiry.submitted", { externalLeadId: enquiry, destination: "Kerala", paxCount: 2 }),
  ],
}));

let answer;
for (let attempt = 1; attempt <= 5; attempt += 1) {
  answer = await send(body);
  if (answer.status !== 503) break;
  // Perhaps it was taken, perhaps not. The same events again are safe either way; each attempt is signed anew.
  await sleep(1000 * Number(answer.headers.get("retry-after")));
}
if (answer.status !== 200) {
  console.error(`refused with ${answer.status}: ${await answer.text()}`);
  exit(1);
}
console.log(await answer.text());

#!/usr/bin/env node
// Signs a batch of events and sends it: send-batch.mjs ENQUIRY
//
// ENQUIRY is your own id of the enquiry, of letters, digits and dashes. The events' ids are made of it: sent again, they
// are `duplicate` and have no second effect. Prints the results. Needs nothing but Node 18.

import { createHmac } from "node:crypto";
import { argv, env, exit } from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const SETTINGS = ["CONNECT_URL", "CONNECT_TENANT", "CONNECT_KEY", "CONNECT_SECRET"];
const { CONNECT_URL, CONNECT_TENANT, CONNECT_KEY, CONNECT_SECRET } = env;
const ATTEMPTS = 5;

const enquiry = argv[2] ?? "";
const wrong = /^[A-Za-z0-9-]{1,80}$/.test(enquiry) ? [] : ["ENQUIRY"];
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

// One attempt: status, headers and text of the answer. Status 0 and why when none came.
async function send(body) {
  // Over the very bytes that are sent: what is serialised again after signing doesn't verify.
  const time = Math.floor(Date.now() / 1000);
  const mac = createHmac("sha256", CONNECT_SECRET).update(`${time}.`).update(body).digest("hex");
  try {
    const answer = await fetch(`${CONNECT_URL.replace(/\/+$/, "")}/api/v1/crm/connect/events`, {
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
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  } catch (error) {
    return { status: 0, headers: new Headers(), text: String(error.cause ?? error) };
  }
}

// Milliseconds until the next attempt: what the answer asks for, else a second. A timer may be a moment early, and in
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

let answer;
for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
  answer = await send(body);
  if (![0, 503].includes(answer.status) || attempt === ATTEMPTS) break;
  // Perhaps it was taken, perhaps not. The same events again are safe either way; each attempt is signed anew.
  await sleep(wait(answer.headers));
}
if (answer.status !== 200) {
  const refused = `refused with ${answer.status}, X-Request-Id ${answer.headers.get("x-request-id")}: ${answer.text}`;
  console.error(answer.status === 0 ? `no answer: ${answer.text}` : refused);
  exit(1);
}
console.log(answer.text);

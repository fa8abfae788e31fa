#!/usr/bin/env node
// Creates a lead: create-lead.mjs ORDER
//
// ORDER is your own id of it, of letters, digits and dashes, and becomes the idempotency key: when it is sent
// again, the response is the same lead. Prints the response. Needs nothing but Node 18.

import { createHmac } from "node:crypto";
import { argv, env, exit } from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const SETTINGS = ["CONNECT_URL", "CONNECT_TENANT", "CONNECT_KEY", "CONNECT_SECRET"];
const { CONNECT_URL, CONNECT_TENANT, CONNECT_KEY, CONNECT_SECRET } = env;
const ATTEMPTS = 5;

const order = argv[2] ?? "";
const wrong = /^[A-Za-z0-9-]{1,80}$/.test(order) ? [] : ["ORDER (letters, digits and dashes, at most 80)"];
wrong.push(...SETTINGS.filter((name) => !env[name]));
if (wrong.length > 0) {
  console.error(`usage: create-lead.mjs ORDER, with CONNECT_URL, CONNECT_TENANT, CONNECT_KEY and CONNECT_SECRET set; missing or wrong: ${wrong.join(" ")}`);
  exit(2);
}

// One attempt at a records route: status, headers and text of the response. Status 0 and the reason when there was none.
async function call(method, target, body = "", headers = {}) {
  // The method and the path with its query are signed as well, as `v2`; without a body, an empty one.
  const time = Math.floor(Date.now() / 1000);
  const mac = createHmac("sha256", CONNECT_SECRET).update(`${time}.${method}.${target}.`).update(body).digest("hex");
  try {
    const response = await fetch(CONNECT_URL.replace(/\/+$/, "") + target, {
      method,
      headers: {
        "Content-Type": "application/json",
        "X-Connect-Key": CONNECT_KEY,
        "X-Connect-Tenant": CONNECT_TENANT,
        "X-Connect-Signature": `t=${time},v2=${mac}`,
        ...headers,
      },
      body: body || undefined,
      signal: AbortSignal.timeout(30_000),
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  } catch (error) {
    return { status: 0, headers: new Headers(), text: String(error.cause ?? error) };
  }
}

// Whether to try again. 503 or no response: the lead may have been created. With the same idempotency key that happens once.
// lead_create_failed: nothing was stored.
function isRetryable({ status, text }) {
  return [0, 503].includes(status) || (status === 500 && text.includes('"lead_create_failed"'));
}

// Milliseconds until the next attempt: what the response asks for, else a second.
function wait(headers) {
  const asked = headers.get("retry-after") ?? "";
  return 1000 * (/^[0-9]+$/.test(asked) ? Math.max(1, Number(asked)) : 1) + 10;
}

const body = JSON.stringify({
  contact: { email: "cara@example.com", name: "Cara" },
  externalId: order,
  destination: "Lisbon",
  party: { adults: 2, children: 0 },
  message: "We would like to stay near the river.",
});

let response;
for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
  // Each attempt is signed again.
  response = await call("POST", "/api/v1/crm/connect/leads", body, { "Idempotency-Key": order });
  if (!isRetryable(response) || attempt === ATTEMPTS) break;
  await sleep(wait(response.headers));
}
if (response.status !== 201) {
  const refused = `refused with ${response.status}, X-Request-Id ${response.headers.get("x-request-id")}: ${response.text}`;
  console.error(response.status === 0 ? `no response: ${response.text}` : refused);
  exit(1);
}
console.log(response.text);

#!/usr/bin/env node
// Creates a lead: create-lead.mjs ORDER
//
// ORDER is your own id of it, of letters, digits and dashes, and becomes the idempotency key: sent again, the same lead is
// answered and none is made. Prints the answer. Needs nothing but Node 18.

import { createHmac } from "node:crypto";
import { argv, env, exit } from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const SETTINGS = ["CONNECT_URL", "CONNECT_TENANT", "CONNECT_KEY", "CONNECT_SECRET"];
const { CONNECT_URL, CONNECT_TENANT, CONNECT_KEY, CONNECT_SECRET } = env;
const ATTEMPTS = 5;

const order = argv[2] ?? "";
const wrong = /^[A-Za-z0-9-]{1,80}$/.test(order) ? [] : ["ORDER"];
wrong.push(...SETTINGS.filter((name) => !env[name]));
if (wrong.length > 0) {
  console.error(`usage: create-lead.mjs ORDER, with CONNECT_URL, CONNECT_TENANT, CONNECT_KEY and CONNECT_SECRET set; missing or wrong: ${wrong.join(" ")}`);
  exit(2);
}

// One attempt at a records route: status, headers and text of the answer. Status 0 and why when none came.
async function call(method, target, body = "", headers = {}) {
  // The method and the path with its query are signed as well, as `v2`; without a body, an empty one.
  const time = Math.floor(Date.now() / 1000);
  const mac = createHmac("sha256", CONNECT_SECRET).update(`${time}.${method}.${target}.`).update(body).digest("hex");
  try {
    const answer = await fetch(CONNECT_URL.replace(/\/+$/, "") + target, {
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
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  } catch (error) {
    return { status: 0, headers: new Headers(), text: String(error.cause ?? error) };
  }
}

// Whether to try again. 503 or no answer: perhaps it was done, perhaps not. With the same idempotency key it is done once.
// lead_create_failed: nothing was kept.
function mayPassLater({ status, text }) {
  return [0, 503].includes(status) || (status === 500 && text.includes('"lead_create_failed"'));
}

// Milliseconds until the next attempt: what the answer asks for, else a second.
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

let answer;
for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
  // Each attempt is signed anew.
  answer = await call("POST", "/api/v1/crm/connect/leads", body, { "Idempotency-Key": order });
  if (!mayPassLater(answer) || attempt === ATTEMPTS) break;
  await sleep(wait(answer.headers));
}
if (answer.status !== 201) {
  const refused = `refused with ${answer.status}, X-Request-Id ${answer.headers.get("x-request-id")}: ${answer.text}`;
  console.error(answer.status === 0 ? `no answer: ${answer.text}` : refused);
  exit(1);
}
console.log(answer.text);

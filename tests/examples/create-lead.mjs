#!/usr/bin/env node
// Creates a lead: create-lead.mjs ORDER
//
// ORDER is your own id of it, and becomes the idempotency key: sent again, the same lead is answered and none is made.
// Prints the answer. Needs nothing but Node 18.

import { createHmac } from "node:crypto";
import { argv, env, exit } from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const { CONNECT_URL, CONNECT_TENANT, CONNECT_KEY, CONNECT_SECRET } = env;

// One attempt at a records route.
function call(method, target, body = "", headers = {}) {
  // The method and the path with its query are signed as well, as `v2`; without a body, an empty one.
  const time = Math.floor(Date.now() / 1000);
  const mac = createHmac("sha256", CONNECT_SECRET).update(`${time}.${method}.${target}.`).update(body).digest("hex");
  return fetch(CONNECT_URL + target, {
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
}

const order = argv[2];
const body = JSON.stringify({
  contact: { email: "cara@example.com", name: "Cara" },
  externalId: order,
  destination: "Lisbon",
  party: { adults: 2, children: 0 },
  message: "We would like to stay near the river.",
});

let answer;
for (let attempt = 1; attempt <= 5; attempt += 1) {
  answer = await call("POST", "/api/v1/crm/connect/leads", body, { "Idempotency-Key": order });
  if (answer.status !== 503) break;
  // Perhaps it was done, perhaps not. With the same idempotency key it is done once.
  await sleep(1000 * Number(answer.headers.get("retry-after")));
}
if (answer.status !== 201) {
  console.error(`refused with ${answer.status}: ${await answer.text()}`);
  exit(1);
}
console.log(await answer.text());

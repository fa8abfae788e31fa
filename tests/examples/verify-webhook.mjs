#!/usr/bin/env node
// Verifies a webhook: verify-webhook.mjs SIGNATURE [NOW] <BODY
//
// SIGNATURE is the header X-Connect-Signature and BODY the body, byte by byte, as received; NOW is the clock, in
// seconds since 1970, for trying it out. Says `verified`, or why not with exit code 1. Needs nothing but Node 18.

import { createHmac, timingSafeEqual } from "node:crypto";
import { argv, env, exit, stdin } from "node:process";

const TOLERANCE = 300; // seconds, both ways

// Why the webhook must be refused; undefined when it is authentic.
function refusal(secret, signature, body, now) {
  // While the secret is rotated there are two `v1`. Unknown elements are ignored.
  const elements = signature.split(",");
  const values = (name) => elements.filter((element) => element.startsWith(`${name}=`)).map((element) => element.slice(name.length + 1));
  const [times, macs] = [values("t"), values("v1")];
  if (times.length !== 1 || !/^[0-9]{1,12}$/.test(times[0])) return "no time";
  if (Math.abs(now - Number(times[0])) > TOLERANCE) return "signed too long ago, or the clock is wrong";
  const expected = createHmac("sha256", secret).update(`${times[0]}.`).update(body).digest();
  // In constant time, which does not reveal where they differ.
  const matches = (mac) => /^[0-9a-f]{64}$/i.test(mac) && timingSafeEqual(Buffer.from(mac, "hex"), expected);
  return macs.some(matches) ? undefined : "signed with another secret, or changed on its way";
}

const [signature, now = String(Math.floor(Date.now() / 1000))] = argv.slice(2);
const checks = {
  SIGNATURE: signature !== undefined,
  NOW: /^[0-9]{1,12}$/.test(now),
  CONNECT_WEBHOOK_SECRET: env.CONNECT_WEBHOOK_SECRET,
};
const wrong = Object.keys(checks).filter((name) => !checks[name]);
if (wrong.length > 0) {
  console.error(`usage: verify-webhook.mjs SIGNATURE [NOW] <BODY, with CONNECT_WEBHOOK_SECRET set; missing or wrong: ${wrong.join(" ")}`);
  exit(2);
}

// Not readFileSync(0), which fails when the body is not there yet.
const chunks = [];
for await (const chunk of stdin) chunks.push(chunk);
const why = refusal(env.CONNECT_WEBHOOK_SECRET, signature, Buffer.concat(chunks), Number(now));
if (why !== undefined) {
  console.error(`refused: ${why}`);
  exit(1);
}
// Now the body may be read. The same eventId can come more than once.
console.log("verified");

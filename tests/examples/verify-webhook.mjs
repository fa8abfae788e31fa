#!/usr/bin/env node
// Verifies a webhook: verify-webhook.mjs SIGNATURE [NOW] <BODY
//
// SIGNATURE is the header X-Connect-Signature and BODY the body, byte by byte, as they came; NOW is the clock, in
// seconds since 1970, for trying it out. Says `verified`, or why not with exit code 1. Needs nothing but Node 18.

import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { argv, env, exit } from "node:process";

const TOLERANCE = 300; // seconds, both ways

// Why the webhook isn't to be believed; undefined when it is.
export function refusal(secret, signature, body, now) {
  // While the secret is rotated there are two `v1`. What else there may be one day is passed over.
  const elements = signature.split(",").map((element) => element.split("="));
  const times = elements.filter(([name]) => name === "t").map(([, value]) => value);
  const macs = elements.filter(([name]) => name === "v1").map(([, value]) => value);
  if (times.length !== 1 || !/^[0-9]{1,12}$/.test(times[0])) return "no time";
  if (Math.abs(now - Number(times[0])) > TOLERANCE) return "signed too long ago, or the clock is wrong";
  const expected = createHmac("sha256", secret).update(`${times[0]}.`).update(body).digest();
  // In a time that doesn't depend on where they differ.
  const matches = (mac) => /^[0-9a-f]{64}$/i.test(mac) && timingSafeEqual(Buffer.from(mac, "hex"), expected);
  return macs.some(matches) ? undefined : "signed with another secret, or changed on its way";
}

const now = argv[3] === undefined ? Math.floor(Date.now() / 1000) : Number(argv[3]);
const why = refusal(env.CONNECT_WEBHOOK_SECRET, argv[2], readFileSync(0), now);
if (why !== undefined) {
  console.error(`refused: ${why}`);
  exit(1);
}
// Now the body may be read. The same eventId can come more than once.
console.log("verified");

const { createHmac, timingSafeEqual } = require('node:crypto');

const SECRET = '{secret}';

// body: a Buffer with the bytes as received
function verify(header, body) {
  const parts = header.split(',').map((part) => part.split('='));
  const [t = '', ...others] = parts.filter(([name]) => name === 't').map(([, value]) => value);
  if (others.length > 0 || !/^[0-9]{1,12}$/.test(t) || Math.abs(Date.now() / 1000 - Number(t)) > 300) return false;
  const mac = createHmac('sha256', SECRET).update(`${t}.`).update(body).digest();
  const macs = parts.filter(([name]) => name === 'v1').map(([, hex]) => Buffer.from(hex ?? '', 'hex'));
  return macs.some((sent) => sent.length === mac.length && timingSafeEqual(sent, mac));
}

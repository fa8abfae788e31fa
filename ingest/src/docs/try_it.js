// Signs requests with the pasted key and sends them. The secret is used on this page only: it is neither stored nor sent.
'use strict';

const [operation, target, idempotencyKey, body, prefix, tenant, secret, send, result] = ['operation', 'target', 'idempotency-key',
  'body', 'key', 'tenant', 'secret', 'send', 'result'].map((name) => document.getElementById(`try-${name}`));

const choose = () => {
  const { dataset } = operation.selectedOptions[0];
  target.value = dataset.target;
  body.value = dataset.body ?? '';
  body.disabled = dataset.body === undefined;
  idempotencyKey.value = dataset.key ?? '';
  idempotencyKey.disabled = dataset.key === undefined;
  result.textContent = '';
};

const encoder = new TextEncoder();
const hmac = async (text) => {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret.value.trim()), algorithm, false, ['sign']);
  const mac = new Uint8Array(await crypto.subtle.sign('HMAC', key, encoder.encode(text)));
  return Array.from(mac, (byte) => byte.toString(16).padStart(2, '0')).join('');
};

const pretty = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

const call = async () => {
  const { method, scheme } = operation.selectedOptions[0].dataset;
  const url = new URL(target.value.trim(), location.origin);
  if (url.origin !== location.origin) throw new Error('the target must be a path of this server');
  if (!globalThis.crypto?.subtle) throw new Error('the browser signs only on pages with https://, or of this machine');
  const path = url.pathname + url.search;
  const sent = body.disabled ? '' : body.value;
  const t = Math.floor(Date.now() / 1000);
  const mac = await hmac(scheme === 'v1' ? `${t}.${sent}` : `${t}.${method}.${path}.${sent}`);
  const headers = {
    'X-Connect-Key': prefix.value.trim(), 'X-Connect-Tenant': tenant.value.trim(),
    'X-Connect-Signature': `t=${t},${scheme}=${mac}`,
  };
  if (!body.disabled) headers['Content-Type'] = 'application/json';
  if (!idempotencyKey.disabled) headers['Idempotency-Key'] = idempotencyKey.value;
  const response = await fetch(path, {
    method, headers, body: body.disabled ? undefined : sent, credentials: 'omit', cache: 'no-store', redirect: 'error',
  });
  const shown = ['x-request-id', 'etag', 'idempotent-replayed', 'retry-after'].filter((name) => response.headers.has(name));
  const lines = shown.map((name) => `${name}: ${response.headers.get(name)}`);
  return [`${response.status} ${response.statusText}`, ...lines, '', pretty(await response.text())].join('\n');
};

operation.addEventListener('change', choose);
send.addEventListener('click', async () => {
  send.disabled = true;
  result.textContent = 'Sending…';
  result.textContent = await call().catch((error) => `Not sent: ${error.message}`);
  send.disabled = false;
});
// A page that the browser keeps for "back" has no secret.
addEventListener('pagehide', () => { secret.value = ''; });
choose();

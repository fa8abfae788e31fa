// Shows the description. If the page has fields for a key, requests can be tried: they are signed here. The secret is neither
// stored nor sent.
'use strict';

const [key, tenant, secret] = ['key', 'tenant', 'secret'].map((name) => document.getElementById(`try-${name}`));

const hmac = async (text) => {
  const encoder = new TextEncoder();
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const imported = await crypto.subtle.importKey('raw', encoder.encode(secret.value.trim()), algorithm, false, ['sign']);
  const mac = new Uint8Array(await crypto.subtle.sign('HMAC', imported, encoder.encode(text)));
  return Array.from(mac, (byte) => byte.toString(16).padStart(2, '0')).join('');
};

const signed = async (request) => {
  const url = new URL(request.url, location.origin);
  if (url.origin !== location.origin) throw new Error('requests are sent to this server only');
  if (!globalThis.crypto?.subtle) throw new Error('the browser signs only on pages with https://, or of this machine');
  if (!secret.value.trim()) throw new Error('paste a key and its secret first');
  const t = Math.floor(Date.now() / 1000);
  const sent = request.body ?? '';
  const [scheme, text] = url.pathname.endsWith('/events')
    ? ['v1', `${t}.${sent}`]
    : ['v2', `${t}.${request.method.toUpperCase()}.${url.pathname}${url.search}.${sent}`];
  Object.assign(request.headers, {
    'X-Connect-Key': key.value.trim(), 'X-Connect-Tenant': tenant.value.trim(),
    'X-Connect-Signature': `t=${t},${scheme}=${await hmac(text)}`,
  });
  return Object.assign(request, { credentials: 'omit', cache: 'no-store', redirect: 'error' });
};

// Swagger UI shows what a fetch throws, but not what an interceptor does.
const sign = (request) => signed(request).catch((error) => Object.assign(request, { userFetch: () => Promise.reject(error) }));

// The fields above replace the dialogs for credentials: these would send the secret.
const nothing = () => () => null;
SwaggerUIBundle({
  dom_id: '#swagger-ui',
  spec: JSON.parse(document.getElementById('document').textContent),
  deepLinking: true,
  validatorUrl: null,
  supportedSubmitMethods: secret ? ['get', 'post', 'patch'] : [],
  ...(secret && { requestInterceptor: sign }),
  plugins: [{ wrapComponents: { authorizeBtn: nothing, authorizeOperationBtn: nothing } }],
});
// A page that the browser keeps for "back" has no secret.
addEventListener('pagehide', () => { if (secret) secret.value = ''; });

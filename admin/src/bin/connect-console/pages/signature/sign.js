const { createHmac } = require('node:crypto');

function signature(secret, method, path, body) {
  const t = Math.floor(Date.now() / 1000);
  const isEvents = path === '/api/v1/crm/connect/events';
  const head = isEvents ? `${t}.` : `${t}.${method}.${path}.`;
  const mac = createHmac('sha256', secret).update(head).update(body).digest('hex');
  return `t=${t},${isEvents ? 'v1' : 'v2'}=${mac}`;
}

// Optional: every page works without it. It copies secrets and samples, keeps times current, refreshes pages that ask for
// it, and prevents that a form is sent twice.
'use strict';

for (const block of document.querySelectorAll('[data-copy]')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'plain copy';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Select the text and copy it';
    }
  });
  block.after(button);
}

// The page of a download stays, and its form can be sent again.
for (const form of document.querySelectorAll('form[method=post]:not([data-download])')) {
  let isSent = false;
  form.addEventListener('submit', (event) => {
    if (isSent) event.preventDefault();
    isSent = true;
  });
}
// A page that the browser shows again after "back" can be sent again.
addEventListener('pageshow', (event) => { if (event.persisted) location.reload(); });

const UNITS = [['year', 31536000], ['month', 2592000], ['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]];
const words = new Intl.RelativeTimeFormat('en', { numeric: 'always' });
const tell = () => {
  for (const time of document.querySelectorAll('time[datetime]')) {
    const seconds = (new Date(time.dateTime) - Date.now()) / 1000;
    const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 1];
    time.textContent = Math.abs(seconds) < 10 ? 'just now' : words.format(Math.trunc(seconds / size), unit);
  }
};
setInterval(tell, 15000);

const every = Number(document.querySelector('[data-refresh]')?.dataset.refresh);
if (every > 0) {
  const timer = setInterval(async () => {
    if (document.hidden || document.activeElement?.closest('main')) return;
    const response = await fetch(location.href, { headers: { 'X-Refresh': '1' } }).catch(() => null);
    if (!response?.ok || response.redirected) return;
    const fresh = new DOMParser().parseFromString(await response.text(), 'text/html').querySelector('main');
    if (!fresh) return;
    document.querySelector('main').replaceWith(fresh);
    if (!fresh.querySelector('[data-refresh]')) clearInterval(timer);
  }, every * 1000);
}

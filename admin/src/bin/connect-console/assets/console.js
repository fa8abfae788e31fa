// Optional: every page works without it. It copies secrets and samples, shows and takes times of the reader's zone, refreshes pages
// that ask for it, tells the values of charts, and prevents that a form is sent twice.
'use strict';

const UNITS = [['year', 31536000], ['month', 2592000], ['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]];
const words = new Intl.RelativeTimeFormat('en', { numeric: 'always', style: 'short' });
const form = (options) => new Intl.DateTimeFormat('en-GB', options);
const FORMS = {
  time: form({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
  day: form({ weekday: 'short', day: 'numeric' }),
  hour: form({ weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
  date: form({ day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
  exact: form({ dateStyle: 'long', timeStyle: 'long' }),
};
const told = (date, name) => FORMS[name].format(date);
const tell = () => {
  for (const time of document.querySelectorAll('time[datetime]')) {
    const date = new Date(time.dateTime);
    if (time.dataset.clock) {
      time.textContent = told(date, time.dataset.clock);
      continue;
    }
    const seconds = (date - Date.now()) / 1000;
    const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 1];
    const distance = Math.abs(seconds) < 10 ? (seconds >= 1 ? 'in a moment' : 'just now') : words.format((seconds > 0 ? Math.ceil : Math.trunc)(seconds / size), unit);
    const isToday = date.toDateString() === new Date().toDateString();
    time.title = told(date, 'exact');
    time.textContent = `${told(date, isToday ? 'time' : 'date')} \u00b7 ${distance}`;
  }
};

const addCopyButton = (block) => {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'plain copy';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 2000);
    } catch {
      button.textContent = 'Select the text and copy it';
    }
  });
  (block.closest('pre') ?? block).after(button);
};

// The value of a bar, for the mouse and for the arrow keys.
const addValues = (chart) => {
  const [bars, output] = [[...chart.querySelectorAll('g')], chart.closest('figure').querySelector('output')];
  let at = bars.length - 1;
  const show = (index) => {
    bars[at]?.classList.remove('at');
    at = Math.min(Math.max(index, 0), bars.length - 1);
    bars[at]?.classList.add('at');
    output.textContent = bars[at]?.querySelector('title').textContent ?? '';
  };
  const hide = () => { bars[at]?.classList.remove('at'); output.textContent = ''; };
  chart.addEventListener('pointermove', ({ target }) => { if (target.closest('g')) show(bars.indexOf(target.closest('g'))); });
  chart.addEventListener('pointerleave', hide);
  chart.addEventListener('focus', () => show(at));
  chart.addEventListener('blur', hide);
  chart.addEventListener('keydown', (event) => {
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: bars.length - 1 }[event.key];
    if (next !== undefined) { event.preventDefault(); show(next); }
  });
};

// A time that is typed is one of the reader's zone. The program gets and keeps UTC.
const addZone = (input) => {
  const label = document.querySelector(`label[for=${input.id}]`);
  label.textContent = label.textContent.replace('UTC', 'your time');
  const minutes = (time) => time.toISOString().slice(0, 16);
  const stored = new Date(`${input.defaultValue}Z`);
  if (!Number.isNaN(stored.getTime())) input.defaultValue = minutes(new Date(stored - stored.getTimezoneOffset() * 60000));
  input.form.addEventListener('formdata', ({ formData }) => {
    if (input.value) formData.set(input.name, minutes(new Date(input.value)));
  });
};

// The page of a download stays, and its form can be sent again.
const sendOnce = (form) => {
  let isSent = false;
  form.addEventListener('submit', (event) => {
    if (isSent) event.preventDefault();
    isSent = true;
  });
};

const enhance = (root) => {
  root.querySelectorAll('[data-copy]').forEach(addCopyButton);
  root.querySelectorAll('[data-chart]').forEach(addValues);
  root.querySelectorAll('[type=datetime-local]').forEach(addZone);
  root.querySelectorAll('form[method=post]:not([data-download])').forEach(sendOnce);
  tell();
};
enhance(document);
setInterval(tell, 15000);
// A link to a folded section opens it.
const openSection = () => document.getElementById(location.hash.slice(1))?.closest('details')?.setAttribute('open', '');
addEventListener('hashchange', openSection);
openSection();
// A page that the browser shows again after "back" can be sent again.
addEventListener('pageshow', (event) => { if (event.persisted) location.reload(); });

// Whether something was typed, ticked or chosen that is not sent yet.
const isChanged = (control) => (control.options
  ? control.selectedIndex !== Math.max([...control.options].findIndex((option) => option.defaultSelected), 0)
  : control.value !== control.defaultValue || control.checked !== control.defaultChecked);

const every = Number(document.querySelector('[data-refresh]')?.dataset.refresh);
if (every > 0) {
  const timer = setInterval(async () => {
    const isBusy = () => document.hidden || document.activeElement?.closest('main') || String(getSelection()) !== ''
      || [...document.querySelectorAll('main :is(input, select, textarea)')].some(isChanged);
    if (isBusy()) return;
    const response = await fetch(location.href, { headers: { 'X-Refresh': '1' } }).catch(() => null);
    if (!response?.ok || response.redirected || isBusy()) return;
    const fresh = new DOMParser().parseFromString(await response.text(), 'text/html').querySelector('main');
    if (!fresh) return;
    const shown = document.querySelector('main');
    const open = [...shown.querySelectorAll('details')].map((details) => details.open);
    shown.replaceWith(fresh);
    const details = fresh.querySelectorAll('details');
    if (details.length === open.length) details.forEach((one, number) => { one.open = open[number]; });
    enhance(fresh);
    if (!fresh.querySelector('[data-refresh]')) clearInterval(timer);
  }, every * 1000);
}

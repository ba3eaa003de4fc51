'use strict';
// Draws each host's machine and keeps the colours, widths and figures of its links up to date.

// Levels of traffic by the GB/s that they begin above; the classes t0 to t5 have their looks.
const LEVELS = [0, 0, 0.1, 1, 10, 100];
const LEVEL_NAMES = ['none', 'less than 0.1', '0.1 to 1', '1 to 10', '10 to 100', '100 or more'];

// Smallest scale of a picture that does not fit; below it, the picture scrolls.
const LEAST_SCALE = 0.7;
const LETTER = 7;

const figures = new Map();

function level(rate) {
  let found = 0;
  LEVELS.forEach((least, n) => { if (rate > 0 && rate >= least) found = n; });
  return found;
}

function gigabytes(rate) {
  return rate === 0 ? '0' : rate < 0.01 ? rate.toExponential(1) : rate < 100 ? rate.toFixed(2) : rate.toFixed(0);
}

function legend() {
  document.getElementById('legend').replaceChildren(...LEVEL_NAMES.map((name, n) => {
    const sample = drawn('svg', { class: 'sample t' + n, viewBox: '0 0 40 12', 'aria-hidden': 'true' });
    sample.append(drawn('line', { x1: 2, y1: 6, x2: 38, y2: 6 }));
    return element('span', { class: 'key' }, sample, name);
  }));
}

function described(link) {
  const most = Math.max(link.there, link.back);
  const capacity = link.capacity > 0 ? ` of ${gigabytes(link.capacity)} GB/s` : '';
  const traffic = most === 0
    ? 'no traffic counted' + (capacity && ',' + capacity.replace(' of', ' bandwidth'))
    : `${gigabytes(most)} GB/s${capacity}, the other way ${gigabytes(Math.min(link.there, link.back))} GB/s`;
  return [`${link.name}: ${traffic}`, ...link.flows].join('\n');
}

// A host's figure, whose parts are filled later.
function figure(host) {
  const made = {
    picture: element('div', { class: 'picture', tabindex: 0, role: 'group', 'aria-label': `machine of host ${host}` }),
    selected: element('p', { class: 'selected', 'aria-live': 'polite' }),
    notes: element('ul', { class: 'notes' }),
    summary: element('summary', {}),
    rows: element('tbody', {}),
    svg: '',
    links: new Map(),
    tags: new Map(),
    chosen: null,
  };
  const heads = ['link', 'GB/s', 'other way GB/s', 'bandwidth GB/s', 'ranks'];
  const head = element('tr', {}, ...heads.map((text, n) => element('th', { scope: 'col', class: n === 0 || n === 4 ? 'text' : '' }, text)));
  made.root = element('figure', { class: 'host' },
    element('figcaption', {}, `host ${host}`), made.picture, made.selected, made.notes,
    element('details', {}, made.summary, element('div', { class: 'table' }, element('table', {}, element('thead', {}, head), made.rows))));
  return made;
}

// Takes the server's picture, and makes its links and labels known by id.
function take(made, svg) {
  const root = document.importNode(new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement, true);
  root.style.minWidth = LEAST_SCALE * Number(root.getAttribute('width')) + 'px';
  root.setAttribute('class', 'machine');
  made.svg = svg;
  made.links.clear();
  made.tags.clear();
  for (const group of root.querySelectorAll('g.link')) {
    const id = group.dataset.id;
    made.links.set(id, group);
    group.setAttribute('tabindex', 0);
    group.setAttribute('role', 'img');
    for (const event of ['focus', 'mouseenter']) group.addEventListener(event, () => { made.chosen = id; choose(made); });
  }
  for (const group of root.querySelectorAll('g.tag')) {
    made.tags.set(group.dataset.id, { text: group.querySelector('text'), rect: group.querySelector('rect'), idle: group.querySelector('text').textContent });
  }
  made.picture.replaceChildren(root);
}

// Says below the picture what is known of the link that has the focus or had the pointer last.
function choose(made) {
  const group = made.links.get(made.chosen);
  made.selected.textContent = group ? group.getAttribute('aria-label') : 'Point at a link, or go to it by Tab, for its traffic.';
}

function label(tag, text) {
  tag.text.textContent = text;
  const width = LETTER * text.length + 6;
  tag.rect.setAttribute('width', width);
  tag.rect.setAttribute('x', Number(tag.text.getAttribute('x')) - width / 2);
}

function update(made, host) {
  if (made.svg !== host.svg) take(made, host.svg);
  for (const link of host.links) {
    const group = made.links.get(link.id);
    if (!group) continue;
    const most = Math.max(link.there, link.back);
    const unknown = group.classList.contains('unknown') ? ' unknown' : '';
    group.setAttribute('class', `link${unknown} t${level(most)}`);
    const text = described(link);
    group.setAttribute('aria-label', text);
    let title = group.querySelector('title');
    if (!title) { title = drawn('title', {}); group.prepend(title); }
    title.textContent = text;
    const tag = made.tags.get(link.id);
    if (tag) {
      tag.text.parentNode.setAttribute('class', most > 0 ? 'tag busy' : 'tag');
      label(tag, most > 0 ? gigabytes(most) : tag.idle);
    }
  }
  choose(made);
  made.notes.replaceChildren(...host.notes.map(note => element('li', {}, note)));
  const busy = host.links.filter(link => link.there > 0 || link.back > 0)
    .sort((a, b) => Math.max(b.there, b.back) - Math.max(a.there, a.back));
  made.summary.textContent = `${busy.length} of ${host.links.length} links have traffic`;
  made.rows.replaceChildren(...busy.map(link => element('tr', {},
    element('td', { class: 'text' }, link.name),
    element('td', {}, gigabytes(Math.max(link.there, link.back))),
    element('td', {}, gigabytes(Math.min(link.there, link.back))),
    element('td', {}, link.capacity > 0 ? gigabytes(link.capacity) : ''),
    element('td', { class: 'text' }, link.flows.join('; ')))));
}

// Shows the hosts of a frame: those that are there already keep their place, focus and scrolling.
function showHosts(hosts, all) {
  document.getElementById('machines').hidden = hosts.length === 0;
  const names = new Set(hosts.map(each => each.host));
  for (const [name, made] of figures) {
    if (!names.has(name)) { made.root.remove(); figures.delete(name); }
  }
  for (const host of hosts) {
    if (!figures.has(host.host)) {
      figures.set(host.host, figure(host.host));
      document.getElementById('hosts').append(figures.get(host.host).root);
    }
    update(figures.get(host.host), host);
  }
  const hidden = all - hosts.length;
  document.getElementById('more').textContent = hidden > 0 ? `${hidden} more hosts are not drawn.` : '';
}

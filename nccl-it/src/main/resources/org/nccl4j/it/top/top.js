'use strict';
// Draws the frames that ./nccl top serves. Texts of programs are set as text, never as HTML.

const SVG = 'http://www.w3.org/2000/svg';
const KEPT = 120;
const history = new Map();
let lastMillis = 0;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawn(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function table(ranks) {
  const heads = ['rank', 'process', 'operations/s', 'algbw GB/s', 'busbw GB/s', 'sent GB/s', 'waits', 'for', 'state', 'operation'];
  const words = new Set(['process', 'state', 'operation']);
  const row = (name, cells) => element('tr', {}, ...cells.map(([text, kind]) => element(name, { class: kind }, text)));
  const head = row('th', heads.map(text => [text, words.has(text) ? 'text' : '']));
  const body = ranks.map(rank => row('td', [
    [String(rank.rank), ''],
    [`${rank.pid} ${rank.host}`, 'text'],
    [rank.operations.toFixed(0), ''],
    [rank.algbw.toFixed(2), ''],
    [rank.busbw.toFixed(2), ''],
    [rank.links.reduce((sum, link) => sum + link.rate, 0).toFixed(2), ''],
    [(100 * rank.waiting).toFixed(0) + ' %', ''],
    [rank.waitsFor < 0 ? '' : String(rank.waitsFor), ''],
    [rank.state, 'text ' + rank.state],
    [rank.operation, 'text'],
  ]));
  return element('div', { class: 'table' }, element('table', {}, element('thead', {}, head), element('tbody', {}, ...body)));
}

// Which third of a range a share of it lies in.
function third(share) {
  return share < 0.34 ? 'low' : share < 0.67 ? 'mid' : 'high';
}

// Straight lines between ranks that send to each other, coloured by traffic: the busier direction
// beside the busiest link of the communicator.
function links(communicator, place) {
  const ways = new Map();
  let most = 0;
  for (const rank of communicator.ranks) {
    for (const link of rank.links) {
      if (!place.has(link.peer) || link.rate <= 0) continue;
      const ends = [Math.min(rank.rank, link.peer), Math.max(rank.rank, link.peer)];
      const way = ways.get(ends.join()) || { ends, rate: 0, said: [] };
      way.rate = Math.max(way.rate, link.rate);
      way.said.push(`rank ${rank.rank} sends ${link.rate.toFixed(2)} GB/s to rank ${link.peer} by ${link.transport}`);
      ways.set(ends.join(), way);
      most = Math.max(most, link.rate);
    }
  }
  return [...ways.values()].map(way => {
    const [[x1, y1], [x2, y2]] = way.ends.map(rank => place.get(rank));
    const line = drawn('line', { x1, y1, x2, y2, class: 'link ' + third(way.rate / most) });
    line.append(drawn('title', {}, way.said.join('\n')));
    return line;
  });
}

// Ranks on a circle, those of a host beside each other; links between them, and curves from a rank
// to the one it waits for.
function graph(communicator) {
  const ranks = [...communicator.ranks].sort((a, b) => a.host.localeCompare(b.host) || a.rank - b.rank);
  const place = new Map();
  ranks.forEach((rank, n) => {
    const angle = 2 * Math.PI * n / ranks.length - Math.PI / 2;
    place.set(rank.rank, [100 + 82 * Math.cos(angle), 100 + 82 * Math.sin(angle)]);
  });
  const svg = drawn('svg', { class: 'ranks', viewBox: '0 0 200 200', role: 'img' });
  svg.append(drawn('title', {}, `ranks of ${communicator.name}, their traffic and their waits`));
  svg.append(...links(communicator, place));
  for (const wait of communicator.waits) {
    const from = place.get(wait.rank);
    const to = place.get(wait.for);
    if (!from || !to) continue;
    const kind = third(wait.share);
    const path = drawn('path', { d: `M ${from} Q 100 100 ${to}`, class: kind });
    path.append(drawn('title', {}, `rank ${wait.rank} waits for rank ${wait.for}, ${(100 * wait.share).toFixed(0)} %`));
    svg.append(path);
    const [x, y] = [(to[0] * 4 + 100) / 5, (to[1] * 4 + 100) / 5];
    svg.append(drawn('path', { d: `M ${x - 3} ${y - 3} L ${x + 3} ${y + 3} M ${x - 3} ${y + 3} L ${x + 3} ${y - 3}`, class: kind }));
  }
  const radius = Math.max(2, Math.min(9, 240 / ranks.length));
  for (const rank of ranks) {
    const [x, y] = place.get(rank.rank);
    const circle = drawn('circle', { cx: x, cy: y, r: radius, class: rank.state });
    circle.append(drawn('title', {}, `rank ${rank.rank}, process ${rank.pid} on ${rank.host}: ${rank.state}`));
    svg.append(circle);
    if (radius > 6) svg.append(drawn('text', { x, y }, String(rank.rank)));
  }
  return svg;
}

// Of each communicator by its number: several may have one name.
function bandwidths(id, now) {
  const kept = history.get(id) || [];
  kept.push(now);
  if (kept.length > KEPT) kept.shift();
  history.set(id, kept);
  const most = Math.max(...kept, 1e-9);
  const points = kept.map((value, n) => `${n * 100 / (KEPT - 1)},${29 - 28 * value / most}`).join(' ');
  const svg = drawn('svg', { class: 'history', viewBox: '0 0 100 30', preserveAspectRatio: 'none', role: 'img' });
  svg.append(drawn('title', {}, `bus bandwidth of the last ${kept.length} frames, at most ${most.toFixed(2)} GB/s`));
  svg.append(drawn('polyline', { points }));
  return svg;
}

// Paths of connections that broke and that others have replaced.
function replaced(ranks, now) {
  return element('ul', { class: 'replaced' }, ...ranks.flatMap(rank => rank.failovers.map(each => element('li', {},
    `rank ${rank.rank}: ${each.count} path${each.count === 1 ? '' : 's'} to ${each.peer < 0 ? 'other ranks' : 'rank ' + each.peer} replaced, `
    + `the last ${Math.max(0, (now - each.lastMillis) / 1000).toFixed(0)} s ago by ${each.path}, ${each.bytesAgain} bytes sent again`))));
}

// Links over networks that are much slower than others, as nccl diagnose names them.
function slow(communicator) {
  const items = communicator.slowLinks.map(each => element('li', {}, each.text));
  if (items.length === 0 && communicator.comparedLinks > 0) {
    items.push(element('li', { class: 'fine' }, `no slow link among ${communicator.comparedLinks} over networks`));
  }
  return element('ul', { class: 'slow' }, ...items);
}

// Roots of a job that gave no answer: their ranks may be missing.
function unreached(roots) {
  return roots.length === 0 ? [] : [element('ul', { class: 'slow' },
    ...roots.map(each => element('li', {}, `no answer of the root at ${each.root}: ${each.reason}`)))];
}

function show(frame, hosts) {
  const many = frame.communicators.length;
  document.getElementById('status').textContent =
    `${new Date(frame.millis).toLocaleTimeString()}, over ${frame.seconds.toFixed(1)} s: ${many} communicator${many === 1 ? '' : 's'}`;
  showHosts(hosts, new Set(frame.communicators.flatMap(each => each.ranks.map(rank => rank.host))).size);
  const ids = new Set(frame.communicators.map(each => each.id));
  for (const id of history.keys()) if (!ids.has(id)) history.delete(id);
  const place = document.getElementById('communicators');
  const scrolled = [...place.querySelectorAll('.table')].map(each => each.scrollLeft);
  place.replaceChildren(...unreached(frame.unreachedRoots), ...frame.communicators.map(each => element('section', {},
    element('h2', {}, `${each.name}, ${each.nRanks} ranks: ${each.operations.toFixed(0)} operations/s, bus bandwidth ${each.busbw.toFixed(2)} GB/s a rank`),
    bandwidths(each.id, each.busbw),
    element('div', { class: 'figures' }, graph(each), table(each.ranks)),
    slow(each),
    replaced(each.ranks, frame.millis))));
  place.querySelectorAll('.table').forEach((each, n) => { each.scrollLeft = scrolled[n] || 0; });
}

async function look() {
  try {
    const frame = await (await fetch('frame.json')).json();
    if (frame.millis && frame.millis !== lastMillis) {
      const hosts = await (await fetch('hosts.json')).json();
      lastMillis = frame.millis;
      show(frame, hosts);
    }
  } catch (error) {
    if (!(error instanceof TypeError && /fetch/i.test(error.message))) console.error(error);
    document.getElementById('status').textContent = 'nccl top has ended';
  }
  setTimeout(look, 250);
}

legend();
look();

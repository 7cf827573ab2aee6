// The axis on which the turns of hvdprof take a small width: times to places on it, and back.
window.hvdprofTimeline = window.hvdprofTimeline || {};
(() => {
  const T = window.hvdprofTimeline;

  const along = (start, end) => (value) => {
    let at = 0;
    while (at < start.length - 2 && value >= start[at + 1]) { at += 1; }
    return end[at] + (value - start[at]) * ((end[at + 1] - end[at]) / (start[at + 1] - start[at]));
  };

  // Each turn is its begin, its end and its width; without turns, places are times.
  T.axisOf = (turns = []) => {
    const [times, places] = [[0], [0]];
    for (const [from, to, width] of turns) {
      const place = places.at(-1) + from - times.at(-1);
      times.push(from, to);
      places.push(place, place + width);
    }
    times.push(times.at(-1) + 1);
    places.push(places.at(-1) + 1);
    const same = (value) => value;
    const turnsIn = (first, last) => turns.reduce((sum, [from, to]) =>
      sum + Math.max(Math.min(to, last) - Math.max(from, first), 0), 0);
    return {
      turns,
      of: turns.length ? along(times, places) : same,
      time: turns.length ? along(places, times) : same,
      at: (time) => turns.find(([from, to]) => time > from && time < to),
      // A length, and how much of it is turns.
      text: (first, last) => T.lengthText(last - first) +
        (turnsIn(first, last) ? `, ${T.lengthText(turnsIn(first, last))} of it hvdprof's turns` : ""),
      // The parts of a window outside of turns.
      parts: (first, last) => {
        const found = [];
        let from = first;
        for (const [begin, end] of turns) {
          if (begin > from && from < last) { found.push([from, Math.min(begin, last)]); }
          from = Math.max(from, end);
        }
        if (from < last) { found.push([from, last]); }
        return found;
      },
    };
  };
  T.PLAIN = T.axisOf();
})();

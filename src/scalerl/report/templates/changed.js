// What each place on the page was drawn from last. Whoever draws asks first whether anything of it is another object now;
// documents are never changed in place, so the same object means the same content. Knows no place and no content.
"use strict";

const Changed = (() => {
  const before = new Map(); // place -> parts

  // Whether some part is not what it was at the last asking; the parts are remembered.
  function since(place, ...parts) {
    const old = before.get(place);
    const same = old?.length === parts.length && parts.every((part, i) => Object.is(part, old[i]));
    if (!same) before.set(place, parts);
    return !same;
  }

  return { since };
})();

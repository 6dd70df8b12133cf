// The message about a race that ended because the user reloaded the page.

/**
 * @param {string} words the settings of the race
 * @param {number} servers how many serving engines took part in the race
 * @param {boolean} isOlderShown true if the page now shows an earlier race
 */
export function lostSentence(words, servers, isOlderShown) {
  const shown = isOlderShown ? " The page shows your race before that." : "";
  return `Your race was still running when this page was loaded again, which ended it: ${words}.${serversLost(servers)}${shown}`;
}

// Say that the user must type the addresses of the servers again, because a reload empties their
// fields.
/** @param {number} count */
function serversLost(count) {
  if (!count) return "";
  const [whose, them] =
    count === 1 ? ["The server’s address", "it"] : ["The servers’ addresses", "them"];
  return ` ${whose} and key are not stored. To race ${them} again, first enter them under More settings.`;
}

/** The characters of a JSON string, between its quotes and with its escapes; checked before. */

/**
 * Returns what the characters stand for.
 *
 * V8 keeps each short string that JSON.parse makes in a table, which a million names would fill
 * with 50 MB. It leaves out strings of more than ten characters, so this makes them longer.
 */
export const stringOf = (characters: string): string =>
  characters.includes("\\")
    ? JSON.parse(`"${padding}${characters}"`).slice(padding.length)
    : characters;

const padding = " ".repeat(12);

/** Returns the text as JSON.stringify writes it. A text without escapes is that already. */
export const canonicalString = (
  text: string | undefined
): string | undefined =>
  text?.includes("\\") ? JSON.stringify(JSON.parse(text)) : text;

/** The project's documents, which the tests of this folder read and execute. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../support/support.ts";

export interface Document {
  /** Path, relative to the project. */
  readonly name: string;
  readonly text: string;
}

export const documentOf = (name: string): Document => ({
  name,
  text: readFileSync(join(root, name), "utf8")
});

export const documents: readonly Document[] = [
  "README.md",
  "CHANGELOG.md",
  "src/README.md",
  "src/http/README.md",
  "src/json/README.md",
  "src/journal/README.md",
  "src/nats/README.md",
  "src/program/README.md",
  "src/program/recipes/README.md",
  "test/README.md",
  "test/bench/README.md",
  ".github/SECURITY.md",
  ".github/CONTRIBUTING.md"
]
  .filter((name) => existsSync(join(root, name)))
  .map(documentOf);

export const allText = documents.map(({ text }) => text).join("\n");

/** A fenced block: its language, and the name that stands after it. */
export interface Block {
  readonly document: Document;
  readonly language: string;
  readonly name: string;
  readonly text: string;
}

export const blocks: readonly Block[] = documents.flatMap((document) =>
  [...document.text.matchAll(/^```(\w+)(?: (\S+))?\n([\s\S]*?)^```$/gm)].map(
    ([, language = "", name = "", text = ""]) => ({
      document,
      language,
      name,
      text
    })
  )
);

/** The text of the one block with a name. */
export function blockOf(language: string, name: string): string {
  const [block, ...others] = blocks.filter((each) => each.name === name);
  assert.ok(
    block && others.length === 0 && block.language === language,
    `one block ${name}`
  );
  return block.text;
}

/** Reads the project's files for the tests of this folder: text, code, comments, tokens, imports. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { root } from "../support/support.ts";

export interface Source {
  /** Path, relative to the project. */
  readonly name: string;
  readonly text: string;
  /** The text with its comments blanked; line and column stay what they are. */
  readonly code: string;
  /** The same with `·` for the contents of strings, templates and regular expressions. */
  readonly bare: string;
  readonly comments: readonly string[];
}

/** Splits a text; finds `/` as a regular expression where no value stands before it. */
export function sourceOf(name: string, text: string): Source {
  const comments: string[] = [];
  let [code, bare, last] = ["", "", ""];
  const blank = (part: string): string => part.replace(/[^\n]/g, " ");
  for (let at = 0; at < text.length;) {
    const rest = text.slice(at);
    const isValue =
      /[\w$)\]}"'`]$/.test(last) &&
      !/\b(?:return|typeof|case|in|of)$/.test(last);
    const comment = /^(?:\/\*[\s\S]*?\*\/|\/\/[^\n]*(?:\n *\/\/[^\n]*)*)/.exec(
      rest
    )?.[0];
    const quoted =
      /^(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')/.exec(rest)?.[0] ??
      (rest.startsWith("`") ? templateIn(rest) : undefined) ??
      (isValue
        ? undefined
        : /^\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/\w*/.exec(rest)?.[0]);
    const part =
      comment ?? quoted ?? /^(?:[\w$]+|\s+|.)/s.exec(rest)?.[0] ?? "";
    if (comment !== undefined) comments.push(comment);
    code += comment === undefined ? part : blank(part);
    bare +=
      comment !== undefined
        ? blank(part)
        : quoted === undefined
          ? part
          : `"${part.slice(1, -1).replace(/[^\n]/g, "·")}"`;
    if (comment === undefined && part.trim() !== "") last = part;
    at += part.length;
  }
  return { name, text, code, bare, comments };
}

/** The template that a text begins with, expressions and the templates in them included. */
function templateIn(text: string): string {
  let at = 1;
  while (at < text.length && text[at] !== "`") {
    if (text[at] === "\\") at += 2;
    else if (text.startsWith("${", at)) at = closingIn(text, at + 2);
    else at++;
  }
  return text.slice(0, at + 1);
}

/** The offset after the brace that closes the expression at an offset. */
function closingIn(text: string, start: number): number {
  let [at, depth] = [start, 1];
  while (at < text.length && depth > 0) {
    if (text[at] === "`") at += templateIn(text.slice(at)).length;
    else {
      depth += text[at] === "{" ? 1 : text[at] === "}" ? -1 : 0;
      at++;
    }
  }
  return at;
}

/** The TypeScript files under a folder, without the packages that are installed there. */
export const sourcesIn = (folder: string): readonly Source[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.includes("node_modules"))
    .sort()
    .map((name) => {
      const path = `${folder}/${name.replaceAll("\\", "/")}`;
      return sourceOf(path, readFileSync(join(root, path), "utf8"));
    });

/** The design's measure: names, numbers, strings, templates, operators and punctuation marks. */
const token = new RegExp(
  [
    /\/\*[\s\S]*?\*\/|\/\/[^\n]*/,
    /`(?:\\[\s\S]|[^`\\])*`/,
    /"(?:\\.|[^"\\\n])*"/,
    /[\p{L}_$#][\p{L}\p{N}_$]*/u,
    /\d[\w.]*/,
    /=>|\?\?=?|\?\.|\.\.\.|[=!]==?|[<>]=?|&&|\|\|/,
    /[^\s\w]/
  ]
    .map((each) => each.source)
    .join("|"),
  "gu"
);

export const tokensOf = ({ text }: Source): number =>
  [...text.matchAll(token)].filter(([part]) => !/^\/[*/]/.test(part)).length;

export interface Item {
  /** Line numbers, from 0; the last one is the line that closes it. */
  readonly first: number;
  readonly last: number;
  readonly indent: number;
  /** Its code without the contents of strings, in one line. */
  readonly code: string;
}

/** Statements and members by their layout: a line, what is indented below it, and what closes it. */
export function itemsOf({ bare }: Source): readonly Item[] {
  const lines = bare.split("\n");
  const indentOf = (line: string): number => line.search(/\S|$/);
  return lines.flatMap((line, first) => {
    const indent = indentOf(line);
    if (line.trim() === "" || /^\s*[)\]}"·]/.test(line)) return [];
    let last = first;
    for (let at = first + 1; at < lines.length; at++) {
      const { [at]: next = "" } = lines;
      if (/^\s*(?:$|·|")/.test(next)) continue;
      if (
        indentOf(next) < indent ||
        (indentOf(next) === indent && !/^\s*[)\]}]/.test(next))
      )
        break;
      last = at;
    }
    const code = lines
      .slice(first, last + 1)
      .join(" ")
      .replace(/\s+/g, " ")
      .trim();
    return [{ first, last, indent, code }];
  });
}

/** The rest of a code after the parenthesis that closes the first one. */
export function afterParentheses(code: string): string {
  let depth = 0;
  for (let at = code.indexOf("("); at >= 0 && at < code.length; at++) {
    depth += code[at] === "(" ? 1 : code[at] === ")" ? -1 : 0;
    if (depth === 0) return code.slice(at + 1).trim();
  }
  return "";
}

/** Whether an item is a function: a declaration, a method, or a name for an arrow function. */
export function isFunction({ code }: Item): boolean {
  if (/^(?:export )?(?:default )?(?:async )?function\b/.test(code)) return true;
  const [, head = ""] =
    /^((?:export |const |static |async |get |set |readonly |override )*#?\w+(?:<[^()]*>)?(?:: [^=]+)? ?=? ?(?:async )?(?:<[^()]*>)?)\(/.exec(
      code
    ) ?? [];
  if (
    head === "" ||
    /^(?:if|for|while|switch|catch|return|do|await|new|throw)\b/.test(head)
  )
    return false;
  const rest = afterParentheses(code.slice(head.length));
  return head.includes("=")
    ? /^(?:: .*?)?=>/.test(rest)
    : /^(?:: [^=;]*)?\{/.test(rest);
}

/** What a file imports: files of the project by path, packages as they are written. */
export const importsOf = ({ name, code }: Source): readonly string[] =>
  [
    ...code.matchAll(
      /^(?:import|export)\b[^;]*? from "([^"]+)";|^import "([^"]+)";/gm
    )
  ].map(([, from = "", effect = from]) =>
    effect.startsWith(".")
      ? normalize(join(dirname(name), effect)).replaceAll("\\", "/")
      : effect
  );

/** The same without type imports, which vanish from the built program. */
export const runtimeImportsOf = (source: Source): readonly string[] =>
  importsOf({
    ...source,
    code: source.code.replace(/^(?:import|export) type\b[^;]*;/gm, "")
  });

/** The clauses of comments: split at `.`, `;` and `:` before white space. */
export const clausesOf = ({ comments }: Source): readonly string[] =>
  comments
    .flatMap((comment) =>
      comment
        .replace(/^\/\*+|\*\/$/g, "")
        .replace(/^\s*(?:\*|\/\/) ?/gm, " ")
        .split(/[.;:](?=\s|$)/)
    )
    .map((clause) => clause.replace(/\s+/g, " ").trim())
    .filter((clause) => /^[A-Za-z]/.test(clause));

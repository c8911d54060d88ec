/** The text of `--help`: its tables are those of settings.ts and config.ts. */
import { version } from "../../config.ts";
import { entries, environmentOf, tokenVariable } from "../settings.ts";

/** The settings of a first day, which fit on one screen with the commands. */
const firstFlags = [
  "host",
  "port",
  "socket",
  "store",
  "tokens",
  "tls-cert",
  "tls-key",
  "admin",
  "log-format",
  "max-body"
];

/**
 * Returns the text: its tables are generated, so that they list every setting.
 *
 * @param settings the settings of a first day in a line each, or all with what there is to say
 */
export const help = (settings: "first" | "all") =>
  `${commands}

${settings === "all" ? everySetting() : firstSettings()}`;

const commands = `plant-store ${version}: takes plants over HTTP and keeps them

  plant-store [serve] [options]   serve POST /plants; SIGTERM ends it; SIGHUP reloads tokens and
                                  certificate, and begins a new journal if the old one was renamed
  plant-store check [options]     check settings, secret files and paths; open no store or port
  plant-store verify FILE...      check whole journals; --json for programs
  plant-store cat FILE...         print each plant as a line of JSON; --seq and --at add its number
                                  and time
  plant-store token [NAME]        generate a token: the token on stderr, its line for a tokens file
                                  on stdout
  plant-store openapi             print the OpenAPI description; --key-window 0: without keys
  plant-store help, version       also -h, --help, -v, --version; help all: every option`;

const tokenMeaning = "one token itself; no flag, because ps shows flags";

function firstSettings() {
  const lines = entries
    .filter(({ flag }) => firstFlags.includes(flag))
    .map((entry) => {
      const { flag, defaultValue, meaning } = entry;

      // After a colon a limit has its reason.
      const text = "unit" in entry ? meaning.replace(/:.*/, "") : meaning;
      const ending = defaultValue === "" ? "" : ` (${defaultValue})`;
      return `  ${`--${flag}`.padEnd(14)} ${text}${ending}`;
    });
  return `The first options of serve, with their defaults; "plant-store help all" lists ${entries.length}:

${lines.join("\n")}
  ${tokenVariable.padEnd(14)} ${tokenMeaning}`;
}

function everySetting() {
  const options = entries.map((entry) => {
    const unit = "unit" in entry ? ` ${entry.unit}` : "";
    return entryOf(
      `--${entry.flag}`,
      environmentOf(entry),
      entry.meaning,
      `${entry.defaultValue}${unit}`
    );
  });
  return `Options of serve, each with its variable, its default and its meaning:

${options.join("\n")}
${entryOf("", tokenVariable, tokenMeaning, "")}`;
}

/** Returns the two lines of a setting. */
const entryOf = (
  flag: string,
  variable: string,
  meaning: string,
  defaultValue: string
) =>
  `  ${flag.padEnd(20)} ${variable.padEnd(25)} ${defaultValue || "none"}\n      ${meaning}`;

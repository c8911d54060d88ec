/**
 * The rules of form: ESLint's and typescript-eslint's recommended ones, and those below. Run from the
 * project's folder, to which the patterns of files are relative. `controls.test.js` breaks each rule.
 */
import js from "@eslint/js";
import tseslint from "typescript-eslint";

/** What only the entry point hands out. */
const ofTheProcess = ["process", "console", "globalThis", "global"];

/** What reaches the network or starts a thread without an import, or runs a text as code. */
const reaching = [
  "fetch",
  "WebSocket",
  "EventSource",
  "Worker",
  "BroadcastChannel",
  "navigator",
  "eval",
  "Function"
];

/**
 * Node runs a file's `after` hooks once no test is left, which may be during a wait that follows the
 * first test: what such a wait starts then never ends, and so the file does not.
 */
const lateWait =
  ":matches(ExpressionStatement[expression.type='AwaitExpression'], " +
  "VariableDeclaration:has(> VariableDeclarator[init.type='AwaitExpression']))";
const firstTest =
  "Program > ExpressionStatement:has(> CallExpression[callee.name=/^(?:describe|test)$/])";

export default tseslint.config(
  { ignores: ["**/node_modules/", "test/.built/"] },
  // Nobody silences a rule at its place: an exception stands here, with its reason.
  { linterOptions: { noInlineConfig: true } },
  js.configs.recommended,
  tseslint.configs.strict,
  {
    rules: {
      // `append` of a host's store resolves with a receipt or with nothing.
      "@typescript-eslint/no-invalid-void-type": "off",
      // HTTP's and the journal's bytes are named in regular expressions on purpose.
      "no-control-regex": "off",
      // TypeScript does that for its files; the others run in Node, whose globals it would not know.
      "no-undef": "off",
      "no-warning-comments": ["error", { terms: ["prettier-ignore"] }],
      "@typescript-eslint/ban-ts-comment": [
        "error",
        { "ts-expect-error": true, "ts-ignore": true, "ts-nocheck": true }
      ],
      "@typescript-eslint/no-unused-vars": [
        "error",
        { ignoreRestSiblings: true, argsIgnorePattern: "^_" }
      ]
    }
  },
  {
    files: ["**/*.ts"],
    languageOptions: {
      parserOptions: {
        projectService: true,
        tsconfigRootDir: `${import.meta.dirname}/../..`
      }
    },
    rules: {
      // A promise without `await` hides its failure: of a write in src, of an assertion in test.
      "@typescript-eslint/no-floating-promises": [
        "error",
        {
          allowForKnownSafeCalls: [
            {
              from: "package",
              package: "node:test",
              name: ["describe", "test"]
            }
          ]
        }
      ],
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/await-thenable": "error"
    }
  },
  {
    files: ["src/**/*.ts"],
    rules: {
      "max-lines-per-function": [
        "error",
        { max: 45, skipBlankLines: true, skipComments: true, IIFEs: true }
      ],
      "no-restricted-globals": ["error", ...ofTheProcess, ...reaching]
    }
  },
  {
    files: ["src/server.ts"],
    rules: { "no-restricted-globals": ["error", ...reaching] }
  },
  {
    files: ["test/**/*.test.ts"],
    rules: {
      "no-restricted-syntax": [
        "error",
        {
          selector: `${firstTest} ~ ${lateWait}`,
          message: "A file waits for what it starts before its first test."
        }
      ]
    }
  },
  {
    // CommonJS: only `require` reaches the parser that is built into Node.
    files: ["**/*.cjs"],
    rules: { "@typescript-eslint/no-require-imports": "off" }
  }
);

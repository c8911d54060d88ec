/** The documents of the project, which the tests of this folder read. */
export const documentNames: readonly string[] = [
  "README.md", "src/README.md", "src/http/README.md", "src/json/README.md",
  "src/journal/README.md", "src/engines/README.md", "src/program/README.md",
  "test/bench/README.md", ".github/SECURITY.md",
];

/** Node's builds for arm64, which qemu emulates: PLANT_TEST_ARM_NODES lists them. */
import { execFileSync } from "node:child_process";
import { missing, unless } from "./tools.ts";

const {
  PLANT_TEST_ARM_NODES: arm = "",
  PLANT_TEST_ARM_LIBRARIES: libraries = ""
} = process.env;

/** It takes the libraries of the builds from a folder. */
const qemu = "qemu-aarch64-static";

/** Why arm64 cannot be emulated here, or false. */
export const noArm =
  unless(
    arm !== "" && libraries !== "",
    "PLANT_TEST_ARM_NODES or PLANT_TEST_ARM_LIBRARIES is not set: .ci/run sets both"
  ) || missing([qemu, "--version"]);

/** Each build, with the arguments by which qemu runs it. */
export const emulated = noArm
  ? []
  : arm
      .split(":")
      .filter(Boolean)
      .map((path) => ({ path: qemu, nodeArgs: ["-L", libraries, path] }))
      .map((node) => ({
        ...node,
        version: execFileSync(
          qemu,
          [...node.nodeArgs, "-p", "`${process.version} on ${process.arch}`"],
          { encoding: "utf8" }
        ).trim()
      }));

/**
 * Rectangles by WebGL2: all of a picture with one call, each an instance. Edges between pixels cover
 * these in part, as a 2D canvas has it, so that both draw the same picture.
 */

import { hatchTile, TILE } from "./surface";

const VERTEX = `#version 300 es
uniform vec2 size;  // of the canvas, in pixels
uniform float scale;  // pixels of a unit
layout(location = 0) in vec4 box;  // left, top, width, height
layout(location = 1) in vec4 paint;  // colour; whether it is hatched
out vec2 at;
flat out vec4 edges;
flat out vec4 colour;
void main() {
  edges = vec4(box.xy, box.xy + box.zw) * scale;
  at = mix(floor(edges.xy), ceil(edges.zw), vec2(gl_VertexID & 1, gl_VertexID >> 1));
  colour = paint;
  gl_Position = vec4(at / size * vec2(2, -2) + vec2(-1, 1), 0, 1);
}`;

const FRAGMENT = `#version 300 es
precision highp float;
uniform sampler2D hatch;
uniform float tile;  // its side, in pixels
in vec2 at;
flat in vec4 edges;
flat in vec4 colour;
out vec4 drawn;
void main() {
  vec2 inside = clamp(min(at + 0.5, edges.zw) - max(at - 0.5, edges.xy), 0.0, 1.0);
  float stroke = texture(hatch, at / tile).a;
  drawn = vec4(colour.rgb, 1) * inside.x * inside.y * (colour.a > 0.5 ? stroke : 1.0);
}`;

const WORDS = 5; // of an instance: four numbers of 32 bits, four of 8
const CONTEXT: WebGLContextAttributes = {
  alpha: false, antialias: false, depth: false, stencil: false, failIfMajorPerformanceCaveat: true,
};

const EMULATED = /swiftshader|llvmpipe|softpipe|software|basic render/i;

/** The canvas's WebGL2; null where there is none, or where a processor would have to do its work. */
export function openWebGl(canvas: HTMLCanvasElement): WebGL2RenderingContext | null {
  const gl = canvas.getContext("webgl2", CONTEXT);
  if (!gl) return null;
  const known = gl.getExtension("WEBGL_debug_renderer_info");
  const renderer = String(gl.getParameter(known ? known.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  if (!EMULATED.test(renderer)) return gl;
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return null;
}

export class Rectangles {
  readonly #gl: WebGL2RenderingContext;
  readonly #program: WebGLProgram;
  readonly #buffer: WebGLBuffer;
  #floats = new Float32Array(0);
  #words = new Uint32Array(0);
  #count = 0;

  constructor(gl: WebGL2RenderingContext) {
    this.#gl = gl;
    this.#program = linked(gl);
    this.#buffer = gl.createBuffer()!;
    this.#grow(4096);
    gl.useProgram(this.#program);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#buffer);
    attribute(gl, 0, gl.FLOAT, false, 0);
    attribute(gl, 1, gl.UNSIGNED_BYTE, true, 16);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    hatchTexture(gl);
  }

  add(x: number, y: number, width: number, height: number, colour: string, hatched: boolean): void {
    if ((this.#count + 1) * WORDS > this.#floats.length) this.#grow(2 * this.#floats.length);
    const at = this.#count++ * WORDS;
    this.#floats[at] = x;
    this.#floats[at + 1] = y;
    this.#floats[at + 2] = width;
    this.#floats[at + 3] = height;
    this.#words[at + 4] = packed(colour) | (hatched ? 0xff000000 : 0);
  }

  /** Draws all that were added on a canvas of `scale` pixels a unit, and forgets them. */
  flush(scale: number): void {
    const gl = this.#gl;
    const { drawingBufferWidth: width, drawingBufferHeight: height } = gl;
    gl.viewport(0, 0, width, height);
    gl.uniform2f(gl.getUniformLocation(this.#program, "size"), width, height);
    gl.uniform1f(gl.getUniformLocation(this.#program, "scale"), scale);
    gl.uniform1f(gl.getUniformLocation(this.#program, "tile"), TILE * scale);
    gl.bufferData(gl.ARRAY_BUFFER, this.#floats.subarray(0, this.#count * WORDS), gl.STREAM_DRAW);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, this.#count);
    this.#count = 0;
  }

  #grow(length: number): void {
    const floats = new Float32Array(length);
    floats.set(this.#floats);
    this.#floats = floats;
    this.#words = new Uint32Array(floats.buffer);
  }
}

function linked(gl: WebGL2RenderingContext): WebGLProgram {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
    const shader = gl.createShader(kind)!;
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
    throw new Error(`the rectangles' shaders do not link: ${gl.getProgramInfoLog(program)}`);
  }
  return program;
}

function attribute(gl: WebGL2RenderingContext, at: number, type: number, share: boolean, offset: number): void {
  gl.enableVertexAttribArray(at);
  gl.vertexAttribPointer(at, 4, type, share, 4 * WORDS, offset);
  gl.vertexAttribDivisor(at, 1);
}

function hatchTexture(gl: WebGL2RenderingContext): void {
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, hatchTile("#000000"));
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR);
}

const colours = new Map<string, number>();

/** `#rrggbb` with red in the lowest byte. */
function packed(colour: string): number {
  const known = colours.get(colour);
  if (known !== undefined) return known;
  const [r, g, b] = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
  const found = r! | (g! << 8) | (b! << 16);
  colours.set(colour, found);
  return found;
}

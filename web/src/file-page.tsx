// Starts a page that is a file of its own: its data lie in the document, as JSON.

import { render, type ComponentChildren } from 'preact';

import { parse } from './json';

/** Renders what `page` makes of the JSON in element `id`, or that it cannot be read. `subject`: "The profile". */
export function renderFile(id: string, subject: string, page: (json: unknown) => ComponentChildren) {
    const app = document.getElementById('app')!;
    try {
        render(page(parse(document.getElementById(id)!.textContent ?? '')), app);
    } catch (e) {
        render(
            <p class="failed" role="alert">
                {subject} in this file cannot be read: {(e as Error).message}
            </p>,
            app,
        );
    }
}

// The logo and name at the top of each page.

export function Title() {
    return (
        <h1>
            <svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true">
                <rect y="1" width="16" height="4" rx="1" class="logo-1" />
                <rect y="6" width="11" height="4" rx="1" class="logo-2" />
                <rect y="11" width="5" height="4" rx="1" class="logo-3" />
            </svg>
            Sonde
        </h1>
    );
}

"""The settings of a browser."""

CHOSEN = {"theme": "dark", "times": "utc", "shortcuts": "off"}


async def test_a_page_follows_the_saved_settings(browser):
    saved = await browser.post("/ui/settings", CHOSEN)
    assert saved.headers["Location"] == "/ui/settings"
    cookies = "; ".join(it.split(";")[0] for it in saved.headers.getall("Set-Cookie"))
    page = await browser.open("/ui/settings", Cookie=cookies)
    assert '<html lang="en" data-theme="dark">' in page.body
    for name, value in CHOSEN.items():
        assert f'name="{name}" value="{value}" checked' in page.body


async def test_the_settings_that_the_script_reads_are_kept_for_a_year_below_ui(browser):
    cookies = (await browser.post("/ui/settings", CHOSEN)).headers.getall("Set-Cookie")
    assert [it.split(";")[0] for it in cookies] == ["theme=dark", "times=utc", "shortcuts=off"]
    assert all("Max-Age=31536000; Path=/ui; SameSite=Lax" in it and "HttpOnly" not in it for it in cookies)


async def test_without_settings_the_theme_is_that_of_the_system(browser):
    page = await browser.open("/ui/settings")
    assert '<html lang="en">' in page.body
    assert 'name="theme" value="system" checked' in page.body


async def test_an_unknown_theme_in_a_cookie_is_ignored(browser):
    page = await browser.open("/ui/", Cookie='theme="x y"; times=utc')
    assert '<html lang="en">' in page.body


async def test_an_unknown_setting_is_refused(browser):
    await browser.post("/ui/settings", CHOSEN | {"theme": "pink"}, status=400)


async def test_the_list_of_shortcuts_is_a_page_and_a_dialog(browser):
    whole, part = await browser.open("/ui/keys"), await browser.open("/ui/keys", X_Fragment="dialog")
    assert part.body in whole.body
    assert "Pause or resume live updates" in part.text
